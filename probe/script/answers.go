package script

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"

	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe/script/output"
)

// answers are the names that a run printed, of addresses and numbers that mean nothing on another
// machine: a recording has them.
type answers struct {
	Functions map[uint64][]output.Function                    `json:"kernel,omitempty"`
	Processes map[output.Process]map[uint64][]output.Function `json:"user,omitempty"`
	Places    map[output.Process]map[uint64]inFile            `json:"places,omitempty"`
	Comms     map[int]string                                  `json:"comms,omitempty"`
	Users     map[uint64]string                               `json:"users,omitempty"`
	Cgroups   map[uint64]string                               `json:"cgroups,omitempty"`
}

// inFile is where an address of a process is in a file.
type inFile struct {
	BuildID string `json:"buildid"`
	Offset  uint64 `json:"offset"`
}

// Kernel implements output.Names for a replay, as the other methods do.
func (a *answers) Kernel(pc uint64) []output.Function { return a.Functions[pc] }

func (a *answers) User(p output.Process, pc uint64) []output.Function { return a.Processes[p][pc] }

func (a *answers) FilePlace(p output.Process, pc uint64) (buildID string, offset uint64) {
	at := a.Places[p][pc]
	return at.BuildID, at.Offset
}

func (a *answers) Comm(id int) string { return a.Comms[id] }

func (a *answers) Username(uid uint64) string { return a.Users[uid] }

func (a *answers) Cgroup(id uint64) string { return a.Cgroups[id] }

// noting notes what it is answered. A name that changes while the script runs is the last one in
// a replay.
type noting struct {
	output.Names
	to answers
}

func (n *noting) Kernel(pc uint64) []output.Function {
	return note(&n.to.Functions, pc, n.Names.Kernel(pc))
}

func (n *noting) User(p output.Process, pc uint64) []output.Function {
	of := n.to.Processes[p]
	f := note(&of, pc, n.Names.User(p, pc))
	note(&n.to.Processes, p, of)
	return f
}

func (n *noting) FilePlace(p output.Process, pc uint64) (buildID string, offset uint64) {
	buildID, offset = n.Names.FilePlace(p, pc)
	of := n.to.Places[p]
	note(&of, pc, inFile{buildID, offset})
	note(&n.to.Places, p, of)
	return buildID, offset
}

func (n *noting) Comm(id int) string { return note(&n.to.Comms, id, n.Names.Comm(id)) }

func (n *noting) Username(uid uint64) string { return note(&n.to.Users, uid, n.Names.Username(uid)) }

func (n *noting) Cgroup(id uint64) string { return note(&n.to.Cgroups, id, n.Names.Cgroup(id)) }

func note[K comparable, V any](m *map[K]V, k K, v V) V {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
	return v
}

// Files of a recording, in JSON: what the run lost, and its names.
const (
	lossesFile = "losses"
	namesFile  = "names"
)

// record writes a file of a recording.
func record(to *recording.Recorder, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w, err := to.Create(name)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return errors.Join(err, w.Close())
}

// recorded reads a file of a recording. Nothing is known of a run that was not ended.
func recorded(rec *recording.Recording, name string, v any) (err error) {
	file, err := rec.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	b, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
