package python

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/stack"
)

// Core is a core file for OpenCore: *core.File implements it.
type Core interface {
	stack.Memory
	// Mappings returns the files that the process had mapped.
	Mappings() []elfnotes.Mapping
	// MayBeCode reports whether the memory at an address may have been code.
	MayBeCode(addr uint64) bool
}

// OpenCore finds the interpreter of the process in a core file, as Open does. The
// interpreter's file must be in root (nil: this machine's); code objects and frames are in
// the core file.
func OpenCore(c Core, root fs.FS) (*Interpreter, error) {
	p := &Interpreter{mem: c}
	tried := make(map[string]bool)
	for _, m := range c.Mappings() {
		if tried[m.Path] || !isPythonName(m.Path) {
			continue
		}
		tried[m.Path] = true
		at := &fileMapping{m.Start, m.End, m.Offset, c.MayBeCode(m.Start)}
		err := elffile.InRoot(root, m.Path, func(f *elffile.File) error { return p.find(f, at) })
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	return nil, ErrNotFound
}

// Keep returns a function for core.Write that reads what Frames and Code read of these
// threads. The core file that is written then has the interpreted frames and their names
// too.
func (p *Interpreter) Keep(tids ...int) func(stack.Memory) {
	return func(mem stack.Memory) {
		q := *p
		q.mem = mem
		_, _ = layoutOf(q.Version, mem, q.runtime)
		for _, tid := range tids {
			_, _ = q.Frames(nil, tid) // what can't be read is not there
		}
		_, _ = q.thread(0) // there is none: it reads the whole list
	}
}
