package python

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

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
	p := (&Interpreter{mem: c, kept: new(kept)}).Within(coreBudget())
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

// coreBudget is what may be read of a core file, by all calls together: the frames and code
// objects of some thousand threads.
func coreBudget() *stack.Budget { return &stack.Budget{Calls: 4 << 20, Bytes: 128 << 20} }

// Keep returns a function for core.Write that reads what Frames and Code read of these
// threads. The core file that is written then has the interpreted frames and their names
// too.
func (p *Interpreter) Keep(tids ...int) func(stack.Memory) {
	return func(mem stack.Memory) {
		q := *p
		q.mem, q.kept = mem, new(kept) // what p has kept is read again
		r := q.Within(coreBudget())
		_, _ = layoutOf(r.Version, r.mem, r.runtime)
		for _, tid := range tids {
			_, _ = r.Frames(nil, tid) // what can't be read is not there
		}
		_, _ = r.thread(0) // there is none: it reads the whole list
	}
}

// kept is what has been read of memory that does not change: however many threads have the same
// frames, or are in a list before the one that is looked for, it is read once.
type kept struct {
	mu      sync.Mutex
	codes   map[uint64]Code
	threads map[uint64]uint64 // states by the threads' numbers; nil: not read yet
	err     error             // of reading threads
}

// code is p.Code.
func (k *kept) code(p *Interpreter, addr uint64) (*Code, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.codes[addr]
	if !ok {
		fresh, err := p.readCode(addr)
		if err != nil {
			return nil, err
		}
		if k.codes == nil {
			k.codes = make(map[uint64]Code)
		}
		c = *fresh
		k.codes[addr] = c
	}
	return &c, nil
}

// thread is p.thread.
func (k *kept) thread(p *Interpreter, tid int) (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.threads == nil {
		k.threads = make(map[uint64]uint64)
		k.err = p.eachThread(func(state, id uint64) bool {
			if k.threads[id] == 0 {
				k.threads[id] = state
			}
			return true
		})
	}
	at := k.threads[uint64(tid)]
	if at == 0 && k.err != nil {
		return 0, fmt.Errorf("CPython's threads: %w", k.err)
	}
	return at, nil
}
