package tool

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/mapx/recording/hostfs"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/symbol"
)

// names gives the names of addresses, and files of the host, of this machine or
// of the recording, and has them written down where the run is recorded. What is
// not asked for is not opened.
type names struct {
	session   *Session
	recorded  *symbol.Recording
	kernel    symbol.Resolver
	processes *symbol.Processes
	collector *collect.Collector // knows the interpreters of processes; nil without one
	frames    *collect.Namer
	host      fs.FS
	disks     map[string]string // by number, nil until asked for
}

const (
	symbolsFile = "symbols"
	hostFiles   = "host"
)

// recording is what names are written to or read from.
func (n *names) recording() (*symbol.Recording, error) {
	if n.recorded != nil {
		return n.recorded, nil
	}
	if n.session.live != nil {
		n.recorded = new(symbol.Recording)
		return n.recorded, nil
	}
	f, err := n.session.tool.recording.Open(symbolsFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n.recorded, err = symbol.ReadRecorded(f)
	return n.recorded, err
}

// kernel names kernel addresses.
func (s *Session) kernel() (symbol.Resolver, error) {
	n := &s.names
	if n.kernel != nil {
		return n.kernel, nil
	}
	rec, err := n.recording()
	if err != nil {
		return nil, err
	}
	if s.live == nil {
		n.kernel = rec.Kernel()
		return n.kernel, nil
	}
	k, err := symbol.OpenKernel(nil)
	if err != nil {
		return nil, err
	}
	n.kernel = k
	if s.rec != nil {
		n.kernel = rec.RecordKernel(k)
	}
	return n.kernel, nil
}

// process names the user addresses of a process. One that has ended, and was not
// observed before, is an error that matches fs.ErrNotExist.
func (s *Session) process(pid int) (symbol.Resolver, error) {
	n := &s.names
	rec, err := n.recording()
	if err != nil {
		return nil, err
	}
	if s.live == nil {
		return rec.Process(pid, 0), nil
	}
	p, err := s.processes().Process(pid)
	if err != nil {
		return nil, err
	}
	r := symbol.Resolver(p)
	if n.collector != nil {
		r = n.collector.Resolver(pid, r)
	}
	if s.rec != nil {
		r = rec.RecordProcess(pid, 0, r)
	}
	return r, nil
}

// Observe has the mappings of a process read now, so that its addresses can be
// named after its end. It does nothing at replay.
func (s *Session) Observe(pid int) {
	if s.live == nil {
		return
	}
	_ = s.processes().Observe(pid) // one that is gone has no names, and its frames say so
}

func (s *Session) processes() *symbol.Processes {
	if s.names.processes == nil {
		s.names.processes = symbol.NewProcesses(&symbol.Options{Chosen: s.tool.chosen() != nil})
	}
	return s.names.processes
}

// Host is the root of this machine's files, by paths like "proc/diskstats": what
// is read through it is in the recording, and read from there at replay.
func (s *Session) Host() (fs.FS, error) {
	n := &s.names
	if n.host != nil {
		return n.host, nil
	}
	var err error
	if s.live == nil {
		n.host, err = hostfs.Open(s.tool.recording, hostFiles)
	} else {
		n.host, err = hostfs.Record(s.rec, hostFiles, procfs.DirFS("/"))
	}
	if err != nil {
		return nil, fmt.Errorf("host files: %w", err)
	}
	return n.host, nil
}

// write writes the names that were given.
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

func (n *names) close() error {
	if n.processes == nil {
		return nil
	}
	return n.processes.Close()
}
