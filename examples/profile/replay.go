package main

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/symbol"
)

// demo is a recording that works everywhere; demo/README.md says how it was made.
//
//go:embed demo
var demo embed.FS

// symbolsFile is the recording's file of names.
const symbolsFile = "symbols"

// measureReplay makes the result from a recording instead of this machine. What
// was sampled is fixed then; the flags that choose outputs count.
func measureReplay(_ context.Context, c *config, _ io.Writer) (*result, error) {
	fsys := procfs.DirFS(c.replay)
	if c.replay == "demo" {
		if sub, err := fs.Sub(demo, "demo"); err == nil {
			fsys = sub
		}
	}
	rec, err := recording.Open(fsys)
	if err != nil {
		return nil, fmt.Errorf("-replay %s: %w", c.replay, err)
	}
	defer rec.Close()
	s, err := openSource(rec)
	if err != nil {
		return nil, fmt.Errorf("-replay %s: %w", c.replay, err)
	}
	return s.result()
}

// openSource gives back what a live run read.
func openSource(rec *recording.Recording) (*source, error) {
	s := new(source)
	if err := json.Unmarshal(rec.Meta().Data, &s.meta); err != nil {
		return nil, fmt.Errorf("not a complete recording of profile: %w", err)
	}
	var err error
	if s.collector, err = collect.Replay(rec); err != nil {
		return nil, err
	}
	f, err := rec.Open(symbolsFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := symbol.ReadRecorded(f)
	if err != nil {
		return nil, err
	}
	s.kernel = names.Kernel()
	s.process = func(pid int) symbol.Resolver { return names.Process(pid, 0) }
	return s, nil
}

// recorder is a run being written down; a nil one does nothing.
type recorder struct {
	rec   *recording.Recorder
	names symbol.Recording
}

func newRecorder(dir string, col *collect.Collector) (*recorder, error) {
	rec, err := recording.Create(dir, &recording.Meta{Tool: "profile", Args: os.Args[1:]})
	if err != nil {
		return nil, err
	}
	col.Record(rec)
	return &recorder{rec: rec}, nil
}

// tee has the names that s gives written down too.
func (r *recorder) tee(s *source) {
	if r == nil {
		return
	}
	live := s.process
	s.kernel = r.names.RecordKernel(s.kernel)
	s.process = func(pid int) symbol.Resolver { return r.names.RecordProcess(pid, 0, live(pid)) }
}

// finish writes what is known only at the end.
func (r *recorder) finish(m *meta) error {
	if r == nil {
		return nil
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	r.rec.SetData(data)
	w, err := r.rec.Create(symbolsFile)
	if err != nil {
		return err
	}
	if _, err := r.names.WriteTo(w); err != nil {
		return err
	}
	return w.Close()
}

func (r *recorder) Close() error {
	if r == nil {
		return nil
	}
	return r.rec.Close()
}
