package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/mapx/recording/hostfs"
	"github.com/borescope/borescope/probe/script"
)

// call is what a recording has of a call of bt: what decides the script's program, beside the machine.
type call struct {
	Name      string            `json:"name"`
	Text      string            `json:"text"`
	Inline    bool              `json:"inline,omitempty"` // the text is that of -e
	Params    []string          `json:"params,omitempty"`
	Values    map[string]string `json:"values,omitempty"`
	PID       int               `json:"pid,omitempty"`
	Child     int               `json:"child,omitempty"`
	Include   []string          `json:"include,omitempty"`
	Folders   []string          `json:"folders,omitempty"`
	Debug     []string          `json:"debug,omitempty"`
	Filter    string            `json:"filter,omitempty"`
	Traceable *[]byte           `json:"traceable,omitempty"`
	Unsafe    bool              `json:"unsafe,omitempty"`
	Self      bool              `json:"self,omitempty"`
	FP        bool              `json:"frame_pointers,omitempty"`
	Failures  bool              `json:"failures,omitempty"`
	Environ   map[string]string `json:"environ,omitempty"` // bpftrace's variables
}

// called returns this call.
func (o *options) called() *call {
	c := &call{
		Name: o.name, Text: o.text, Inline: o.script != "", Params: o.params, Values: o.values,
		PID: o.pid, Child: o.child, Include: o.include, Folders: o.folders, Debug: o.debug,
		Filter: o.filter, Unsafe: o.unsafe, Self: o.self, FP: o.fp, Failures: o.failures > 0,
		Environ: map[string]string{},
	}
	if o.traceable != nil {
		c.Traceable = &o.traceable
	}
	for _, v := range os.Environ() {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "BPFTRACE_") {
			c.Environ[name] = value
		}
	}
	return c
}

// again makes this call that of a recording. What says how it is printed stays.
func (o *options) again(c *call) error {
	o.name, o.text, o.params, o.values = c.Name, c.Text, c.Params, c.Values
	o.pid, o.child, o.include, o.folders, o.debug = c.PID, c.Child, c.Include, c.Folders, c.Debug
	o.filter, o.unsafe, o.self, o.fp = c.Filter, c.Unsafe, c.Self, c.FP
	if c.Inline {
		o.script = c.Text
	}
	if c.Traceable != nil {
		o.traceable = *c.Traceable
	}
	if c.Failures {
		o.failures = 1
	}
	o.environ = func(name string) (string, bool) {
		v, ok := c.Environ[name]
		return v, ok
	}
	return o.setFilter()
}

// opener opens a folder from which a script is compiled: one of this machine, which is recorded
// under the name or not, or that of a recording.
type opener func(folder, name string) (fs.FS, error)

func onDisk(folder, _ string) (fs.FS, error) { return hostfs.Dir(folder), nil }

// hostTree is the name of the machine's files in a recording.
const hostTree = "host"

// begin begins the recording of -record, with all that the script is compiled from: p, again.
func (o *options) begin(p *script.Program) (*recording.Recorder, error) {
	data, err := json.Marshal(o.called())
	if err != nil {
		return nil, err
	}
	rec, err := recording.Create(o.record, &recording.Meta{Tool: "bt", Data: data})
	if err != nil {
		return nil, fmt.Errorf("-record %s: %w", o.record, err)
	}
	if err := o.recordFiles(rec, p); err != nil {
		return nil, errors.Join(fmt.Errorf("-record %s: %w", o.record, err), rec.Close())
	}
	return rec, nil
}

// recordFiles compiles the script again, from files that are recorded as they are read.
func (o *options) recordFiles(rec *recording.Recorder, p *script.Program) (err error) {
	again := *o
	again.open = func(folder, name string) (fs.FS, error) { return hostfs.Record(rec, name, hostfs.Dir(folder)) }
	files, release := o.env().Files()
	defer func() { err = errors.Join(err, release()) }()
	if again.host, err = hostfs.Record(rec, hostTree, files); err != nil {
		return err
	}
	opts, err := again.options()
	if err != nil {
		return err
	}
	same, err := script.Compile(o.name, o.text, opts)
	if err == nil && same.IR().String() != p.IR().String() {
		// That this kernel lacks what its version has: its files do not tell. What is recorded is the same.
		opts.Apart = true
		same, err = script.Compile(o.name, o.text, opts)
	}
	if err == nil && same.IR().String() != p.IR().String() {
		err = errors.New("the script becomes another program with only the files of this machine")
	}
	return err
}

//go:embed all:testdata/demo
var demos embed.FS

// replayed prints a recording.
func (o *options) replayed() (status int, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("-replay %s: %w", o.replay, err)
		}
	}()
	from := hostfs.Dir(o.replay)
	if o.replay == "demo" {
		if from, err = fs.Sub(demos, "testdata/demo"); err != nil {
			return 0, err
		}
	}
	rec, err := recording.Open(from)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	m := rec.Meta()
	if m.Tool != "bt" {
		return 0, fmt.Errorf("a recording of %s", m.Tool)
	}
	var c call
	if err := json.Unmarshal(m.Data, &c); err != nil {
		return 0, err
	}
	if err := o.again(&c); err != nil {
		return 0, err
	}
	o.arch = m.Arch
	o.open = func(_, name string) (fs.FS, error) { return hostfs.Open(rec, name) }
	if o.host, err = o.open("/", hostTree); err != nil {
		return 0, err
	}
	p, err := o.compile()
	if err != nil {
		return 0, err
	}
	status, err = p.Replay(rec, o.runOptions())
	if errors.Is(err, script.ErrLost) {
		return lostStatus, nil
	}
	return status, err
}
