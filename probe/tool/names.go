package tool

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/mapx/recording/hostfs"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/symbol"
	"github.com/borescope/borescope/symbol/lifecycle"
)

// names resolves addresses and opens files of the host, from this machine or from the
// recording, and records what it returns if the run is recorded. It opens each source at its
// first use.
type names struct {
	run       *Run
	recorded  *symbol.Recording
	kernel    symbol.Resolver
	processes *symbol.Processes
	follower  *lifecycle.Follower // tells processes what happens; nil unless stacks are kept, and if it can't
	heard     uint64              // until when it has
	collector *collect.Collector  // has the interpreters of processes; nil without one
	frames    *collect.Namer
	unnamed   unnamed
	host      fs.FS
	disks     map[string]string // by number, nil until first used
}

const (
	symbolsFile = "symbols"
	hostFiles   = "host"
)

// recording returns the recording that names are written to or read from.
func (n *names) recording() (*symbol.Recording, error) {
	if n.recorded != nil {
		return n.recorded, nil
	}
	if n.run.live != nil {
		n.recorded = new(symbol.Recording)
		return n.recorded, nil
	}
	f, err := n.run.tool.recording.Open(symbolsFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n.recorded, err = symbol.ReadRecorded(f)
	return n.recorded, err
}

// kernel returns the resolver of kernel addresses.
func (r *Run) kernel() (symbol.Resolver, error) {
	n := &r.names
	if n.kernel != nil {
		return n.kernel, nil
	}
	rec, err := n.recording()
	if err != nil {
		return nil, err
	}
	if r.live == nil {
		n.kernel = rec.Kernel()
		return n.kernel, nil
	}
	k, err := symbol.OpenKernel(nil)
	if err != nil {
		return nil, err
	}
	n.kernel = k
	if r.rec != nil {
		n.kernel = rec.RecordKernel(k)
	}
	return n.kernel, nil
}

// process returns the resolver of a process's user addresses. For a process that has ended
// and was not observed before, the error matches fs.ErrNotExist.
func (run *Run) process(pid int) (symbol.Resolver, error) {
	n := &run.names
	rec, err := n.recording()
	if err != nil {
		return nil, err
	}
	if run.live == nil {
		return rec.Process(pid, 0), nil
	}
	p, err := run.processes().Process(pid)
	if err != nil {
		return nil, err
	}
	r := symbol.Resolver(p)
	if n.collector != nil {
		r = n.collector.Resolver(pid, r)
	}
	if run.rec != nil {
		r = rec.RecordProcess(pid, 0, r)
	}
	return r, nil
}

// Observe reads the mappings of a process now, so that its addresses can be named after its
// end. It does nothing at replay.
func (r *Run) Observe(pid int) {
	if r.live == nil {
		return
	}
	_ = r.processes().Observe(pid) // frames of an ended process have no names
}

func (r *Run) processes() *symbol.Processes {
	if r.names.processes == nil {
		r.names.processes = symbol.NewProcesses(&symbol.Options{
			Chosen: r.tool.chosen() != nil, Served: r.tool.unsafe,
		})
	}
	return r.names.processes
}

// Host returns the root of this machine's file system, with paths like "proc/diskstats". What
// is read through it is recorded, and read from the recording at replay.
func (r *Run) Host() (fs.FS, error) {
	n := &r.names
	if n.host != nil {
		return n.host, nil
	}
	var err error
	if r.live == nil {
		n.host, err = hostfs.Open(r.tool.recording, hostFiles)
	} else {
		n.host, err = hostfs.Record(r.rec, hostFiles, procfs.DirFS("/"))
	}
	if err != nil {
		return nil, fmt.Errorf("host files: %w", err)
	}
	return n.host, nil
}

// write writes the names that were returned to the recording.
func (n *names) write(rec *recording.Recorder) error {
	if rec == nil || n.recorded == nil {
		return nil
	}
	w, err := rec.Create(symbolsFile)
	if err != nil {
		return err
	}
	_, err = n.recorded.WriteTo(w)
	return errors.Join(err, w.Close())
}

// follow has what happens to processes be known from now on: they execute programs, load libraries and end
// while their stacks are kept. What the chosen ones have mapped is read now: names may be asked for when more
// has happened than is remembered of others. Without the right to follow, mappings are read when names are
// asked for.
func (n *names) follow() {
	if f, err := lifecycle.Follow(n.run.processes(), nil); err == nil {
		n.follower = f
	}
	for _, id := range n.run.tool.chosen() {
		_ = n.run.processes().Observe(id) // it may have no names
	}
}

// hear has what happened until a time be known.
func (n *names) hear(nsecs uint64) {
	if n.follower == nil || nsecs < n.heard {
		return
	}
	n.heard = kernel.Monotonic()
	_ = n.follower.Sync() // without it, what is known is old
}

func (n *names) close() error {
	err := n.follower.Close()
	if n.processes != nil {
		err = errors.Join(err, n.processes.Close())
	}
	return err
}
