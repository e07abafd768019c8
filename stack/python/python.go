// Package python reads the interpreted frames of CPython 3.11 to 3.13, from live processes and
// from core files, and merges them with the native frames of package stack.
//
//	p, err := python.Open(pid) // ErrNotFound: this is no CPython process
//	if err != nil {
//		return err
//	}
//	frames, err := p.Frames(nil, tid)
//	for _, f := range frames {
//		if code, err := p.Code(f.PC); err == nil {
//			fmt.Println(code.Name, code.File, f.Line)
//		}
//	}
//
// Reading another process's memory needs ptrace read permission (CAP_SYS_PTRACE for other
// users' processes). Core files need no privileges.
package python

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime/debug"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/rules"
)

// Interpreter reads the interpreted frames of a CPython process, 3.11 to 3.13, from its
// memory: of a live process or of a core file. It holds no resource. Methods are safe for
// concurrent use if the Memory is.
//
// What is read is bounded, because the process decides how much there is. Of a live process,
// each call of Frames has a budget of its own, unless Within gives the interpreter one; of a
// core file, all calls together have one. What exceeds it is not read: stack.ErrBudget.
//
// Structures are found by the interpreter's own debug offsets (3.13) or by a recorded table
// (3.11, 3.12, where they do not change within a version). The interpreter must export
// _PyRuntime, as all do, stripped ones too.
type Interpreter struct {
	// Version is the interpreter's version, in the form of Py_Version: 0x030d00f0 is
	// 3.13.0.
	Version uint64

	mem      stack.Memory
	within   bool // mem has a budget
	pid      int
	kept     *kept  // nil for a live process
	runtime  uint64 // address of _PyRuntime
	codeType uint64 // address of PyCode_Type
	loop     addrRange
	layout   layout
	pidns    procfs.NamespaceID
}

// addrRange is a stretch of memory.
type addrRange struct{ from, to uint64 }

// ErrNotFound is the error when no CPython interpreter is found in a process. It matches
// os.ErrNotExist.
var ErrNotFound = notexist.Errorf("no CPython interpreter is mapped")

// Bounds of what is followed in a process's memory.
const (
	maxThreads = 1 << 14
	maxFrames  = 1 << 16
)

// Bounds of looking for an interpreter: real processes map a few files with such names, whose
// dynamic symbols are some thousands.
const (
	maxTried   = 32
	maxSymbols = 1 << 18
)

// frameBudget is what a call of Frames may read of a live process: that of a thread of
// maxFrames, if all are of one function, takes three quarters of the calls.
func frameBudget() *stack.Budget { return &stack.Budget{Calls: 1 << 18, Bytes: 32 << 20} }

// Within returns an interpreter like p that reads the memory within b, which it shares with
// others: with the interpreters of other processes, for example, for as long as what was
// sampled of them is named. It fails where the budget ends: stack.ErrBudget.
func (p *Interpreter) Within(b *stack.Budget) *Interpreter {
	q := *p
	q.mem, q.within = b.Memory(p.pid, p.mem), true
	return &q
}

// Open finds the interpreter of a live process: a program or library whose name contains
// "python". It returns ErrNotFound if there is none, and an error that wraps
// errors.ErrUnsupported for other versions and 32-bit ones. It needs Linux and ptrace read permission.
func Open(pid int) (*Interpreter, error) {
	p := &Interpreter{mem: stack.ProcessMemory(pid), pid: pid}
	tried := make(map[string]bool)
	found := ErrNotFound
	err := procfs.EachMapping(pid, func(m *procfs.Mapping) bool {
		if tried[m.Path] || !isPythonName(m.Path) {
			return true
		}
		if len(tried) == maxTried {
			return false
		}
		tried[m.Path] = true
		f, err := procfs.OpenMapped(pid, m, false)
		if err == nil {
			err = p.openFile(f, &fileMapping{m.Start, m.End, m.Offset, m.Perm&procfs.Exec != 0})
			f.Close()
		}
		if errors.Is(err, ErrNotFound) {
			return true
		}
		found = err
		return false
	})
	if err == nil {
		err = found
	}
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	p.pidns, _ = procfs.PidNamespace(pid)
	return p, nil
}

// isPythonName says whether a file may hold an interpreter: python3.11,
// libpython3.13.so.1.0.
func isPythonName(name string) bool {
	return strings.HasPrefix(name, "/") && strings.Contains(path.Base(name), "python")
}

// fileMapping is where a part of a file is mapped.
type fileMapping struct {
	start, end, offset uint64
	exec               bool
}

func (p *Interpreter) openFile(f fs.File, m *fileMapping) error {
	ef, err := elffile.NewFS(f)
	if err != nil {
		return ErrNotFound // a font, a zip file
	}
	defer ef.Close()
	return p.find(ef, m)
}

// Find looks the interpreter's symbols up in a file of which a part is mapped.
func (p *Interpreter) find(f *elffile.File, m *fileMapping) error {
	syms, err := symbolsOf(f)
	if err != nil {
		return err
	}
	rt, okRuntime := syms["_PyRuntime"]
	version, okVersion := syms["Py_Version"] // since 3.11
	if !okRuntime || !okVersion {
		return ErrNotFound
	}
	if f.Class != elf.ELFCLASS64 {
		return fmt.Errorf("CPython of 32 bits: %w", errors.ErrUnsupported)
	}
	bias, ok := f.Bias(m.start, m.offset, m.end-m.start, m.exec)
	if !ok {
		return ErrNotFound
	}
	p.runtime = rt.from + bias
	if p.Version, err = fileWord(f, version.from); err != nil {
		return err
	}
	if p.layout, err = layoutOf(p.Version, p.mem, p.runtime); err != nil {
		return err
	}
	if s, ok := syms["PyCode_Type"]; ok {
		p.codeType = s.from + bias
	}
	if s, ok := syms["_PyEval_EvalFrameDefault"]; ok {
		p.loop = addrRange{s.from + bias, s.to + bias}
	}
	return nil
}

// symbolsOf reads the dynamic symbols that are of interest.
func symbolsOf(f *elffile.File) (out map[string]addrRange, err error) {
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	out = make(map[string]addrRange)
	table := f.Section(".dynsym")
	if table == nil || table.Size/elf.Sym64Size > maxSymbols {
		return nil, ErrNotFound
	}
	syms, err := f.Symbols(table)
	if err != nil {
		return nil, err
	}
	for _, s := range syms.All() {
		if s.Shndx == uint16(elf.SHN_UNDEF) {
			continue
		}
		for _, name := range []string{
			"_PyRuntime", "Py_Version", "PyCode_Type",
			"_PyEval_EvalFrameDefault",
		} {
			if syms.Is(&s, name) {
				out[name] = addrRange{s.Value, s.Value + s.Size}
			}
		}
	}
	return out, nil
}

// fileWord reads a constant of a program out of its file: core files do not have
// those.
func fileWord(f *elffile.File, vaddr uint64) (v uint64, err error) {
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	off, ok := f.Offset(vaddr)
	if !ok {
		return 0, ErrNotFound
	}
	b, err := f.Bytes(off, 8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// InLoop reports whether an address lies in the interpreter's loop: native
// frames there run interpreted ones. See Merge.
func (p *Interpreter) InLoop(addr uint64) bool { return addr >= p.loop.from && addr < p.loop.to }

// Frames appends the interpreted frames of a thread to dst, innermost first: none if it
// runs no Python code. PC is the address of the code object, which Code reads; Line is the
// current line. tid is the thread's number in the process's own pid namespace, which
// differs from that in others.
//
// The frames are exact while the thread is stopped, and in a core file; those of a running
// thread may be from different moments.
func (p *Interpreter) Frames(dst []stack.Frame, tid int) ([]stack.Frame, error) {
	if !p.within {
		p = p.Within(frameBudget())
	}
	at, err := p.thread(tid)
	if err != nil || at == 0 {
		return dst, err
	}
	l := &p.layout
	at, err = p.word(at + l.threadFrame)
	if err == nil && l.viaCFrame && at != 0 {
		at, err = p.word(at + l.cframeFrame)
	}
	first := len(dst)
	codes := make(map[uint64]*Code) // a function that calls itself is read once
	var b [rules.PythonFrameSize]byte
	// A frame that comes again (Brent): the list is a ring.
	seen, until := uint64(0), 1
	for n := 0; err == nil && at != 0; n++ {
		switch {
		case n == maxFrames:
			return dst, fmt.Errorf("CPython thread %d: more than %d frames", tid, n)
		case at == seen:
			return dst, fmt.Errorf("CPython thread %d: its frames are a ring", tid)
		case n == until:
			seen, until = at, 2*until
		}
		if err = p.mem.ReadMemory(b[:], at); err != nil {
			break
		}
		at = binary.LittleEndian.Uint64(b[l.framePrevious:])
		if l.frameEntry == 0 && b[l.frameOwner] == ownedByCStack {
			if len(dst) > first {
				dst[len(dst)-1].Entry = true
			}
			continue
		}
		f := stack.Frame{PC: binary.LittleEndian.Uint64(b[l.frameCode:]), Source: stack.SourceInterpreter}
		f.Entry = l.frameEntry != 0 && b[l.frameEntry] != 0
		var shim bool
		f.Line, shim, err = p.lineOf(codes, f.PC, binary.LittleEndian.Uint64(b[l.frameInstr:]))
		if !shim {
			dst = append(dst, f)
		} else if f.Entry && len(dst) > first {
			dst[len(dst)-1].Entry = true
		}
	}
	if err != nil {
		err = fmt.Errorf("CPython thread %d: %w", tid, err)
	}
	return dst, err
}

// lineOf returns the line of an instruction of a code object, 0 if that cannot be read, and
// whether the code is the interpreter's own. The error is that of the budget only.
func (p *Interpreter) lineOf(codes map[uint64]*Code, addr, instr uint64) (line uint32, shim bool, err error) {
	code := codes[addr]
	if code == nil {
		if code, err = p.Code(addr); err != nil {
			return 0, false, overBudget(err)
		}
		codes[addr] = code
	}
	if code.Shim {
		return 0, true, nil
	}
	n, err := p.line(code, instr)
	return uint32(n), false, overBudget(err)
}

// overBudget returns an error if it is one of the budget, else none.
func overBudget(err error) error {
	if errors.Is(err, stack.ErrBudget) {
		return err
	}
	return nil
}

// maxWalks bounds how often the list of threads is read because it changes.
const maxWalks = 20

// thread returns the address of a thread's PyThreadState, 0 if the thread has none. Threads
// that begin and end change the interpreter's list while it is read: a state that was freed
// may contain anything, also what looks like the end of the list. So a walk that fails is
// repeated, and a thread has no state only if three walks do not find it.
func (p *Interpreter) thread(tid int) (at uint64, err error) {
	if p.kept != nil {
		return p.kept.thread(p, tid)
	}
	misses := 0
	for range maxWalks {
		if at, err = p.findThread(tid); at != 0 {
			return at, nil
		}
		if err == nil {
			if misses++; misses == 3 {
				return 0, nil
			}
		} else if overBudget(err) != nil {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("CPython's threads: %w", err)
	}
	return 0, err
}

// findThread is one walk for thread.
func (p *Interpreter) findThread(tid int) (at uint64, err error) {
	err = p.eachThread(func(state, id uint64) bool {
		if id == uint64(tid) {
			at = state
		}
		return at == 0
	})
	if err != nil {
		return 0, err
	}
	return at, nil
}

// eachThread calls f for the threads' states, with the threads' numbers, until f returns false.
// What it reads from a state counts only if the pointer to the state, in the list's head or in
// the state before, still has the same value afterwards.
func (p *Interpreter) eachThread(f func(state, id uint64) bool) error {
	l := &p.layout
	interp, err := p.word(p.runtime + l.interpreters)
	for n := 0; err == nil && interp != 0 && n < maxThreads; n++ {
		link := interp + l.interpThreads
		var at, id uint64
		at, err = p.word(link)
		for ; err == nil && at != 0 && n < maxThreads; n++ {
			id, err = p.word(at + l.threadID)
			next, nextErr := p.word(at + l.threadNext)
			if p.kept == nil {
				if still, again := p.word(link); again == nil && still != at {
					return errListChanged
				}
			}
			if err == nil && !f(at, id) {
				return nil
			}
			err = cmp.Or(err, nextErr)
			link, at = at+l.threadNext, next
		}
		if err == nil {
			interp, err = p.word(interp + l.interpNext)
		}
	}
	return err
}

// errListChanged is the error for a list of threads that has changed while it was read.
var errListChanged = errors.New("the list changes faster than it can be read")

func (p *Interpreter) word(addr uint64) (uint64, error) {
	var b [8]byte
	err := p.mem.ReadMemory(b[:], addr)
	return binary.LittleEndian.Uint64(b[:]), err
}

// Merge puts interpreted frames where they ran. frames has the native ones, innermost
// first, and behind them the interpreted ones, as collect.Samples and Interpreter.Frames
// return them. Native code that enters the interpreter runs its loop, and the interpreted
// frames up to the one with Entry set run in that loop. So each such run of frames goes
// before the native frame of its loop, for which inLoop returns true. Merge appends the
// result to dst.
//
// The numbers of runs and loops differ if the leaf has just entered or is about to leave,
// or if a walk did not reach the thread's start. They are then matched from the thread's
// start if whole is set, else from the leaf; a run that has no loop is put with the one
// next to it.
func Merge(dst, frames []stack.Frame, whole bool, inLoop func(stack.Frame) bool) []stack.Frame {
	native, runs := split(frames)
	loops := 0
	for _, f := range native {
		if inLoop(f) {
			loops++
		}
	}
	if loops == 0 {
		return append(dst, frames...)
	}
	skip := 0 // loops at the leaf that run nothing yet
	if whole {
		skip = max(0, loops-len(runs))
	}
	extra := max(0, len(runs)-loops)
	for _, f := range native {
		if inLoop(f) {
			if skip > 0 {
				skip--
			} else if len(runs) > 0 {
				n := 1
				if last := loops == 1; whole {
					n, extra = n+extra, 0
				} else if last {
					n = len(runs)
				}
				for _, run := range runs[:n] {
					dst = append(dst, run...)
				}
				runs = runs[n:]
			}
			loops--
		}
		dst = append(dst, f)
	}
	return dst
}

// split parts native frames from the interpreted ones behind them, and
// those where native code entered the interpreter.
func split(frames []stack.Frame) (native []stack.Frame, runs [][]stack.Frame) {
	n := 0
	for n < len(frames) && frames[n].Source != stack.SourceInterpreter {
		n++
	}
	native, rest := frames[:n], frames[n:]
	for start, i := 0, 0; i < len(rest); i++ {
		if rest[i].Entry || i == len(rest)-1 {
			runs = append(runs, rest[start:i+1])
			start = i + 1
		}
	}
	return native, runs
}
