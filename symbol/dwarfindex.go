package symbol

import (
	"bytes"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/borescope/borescope/internal/dwarf"
	"github.com/borescope/borescope/internal/elffile"
)

// dwarfIndex is the DWARF of a file.
type dwarfIndex struct {
	mu  sync.Mutex
	d   *dwarf.Data   // guarded by mu
	buf []dwarf.Call  // guarded by mu
	alt *elffile.File // the file that dwz moved common parts to; may be nil
	// split are the files of split DWARF; guarded by mu.
	split []*elffile.File
	// noLine is the Reason why an address has no line, from what has been read so far.
	noLine atomic.Uint32
}

// learn sets noLine. The caller holds mu, or is the only user.
func (x *dwarfIndex) learn() {
	why := ReasonNoLine
	if err := x.d.Missing(); err != nil {
		why = whyRefused(err)
	}
	x.noLine.Store(uint32(why))
}

// whyRefused returns the reason for an error of package dwarf.
func whyRefused(err error) Reason {
	switch {
	case errors.Is(err, elffile.ErrTooLarge):
		return ReasonTooLarge
	case errors.Is(err, dwarf.ErrNone):
		return ReasonNoDebug
	}
	return ReasonBadDebug
}

func (x *dwarfIndex) bytes() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.d.Bytes()
	if x.alt != nil {
		n += x.alt.Heap()
	}
	for _, f := range x.split {
		n += f.Heap() + splitCost
	}
	return n
}

// splitCost is about the memory of an open .dwo file, in bytes.
const splitCost = 4096

// close closes the files besides the program's own.
func (x *dwarfIndex) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.alt.Close()
	for _, f := range x.split {
		f.Close()
	}
	x.split = nil
}

// openDWARF opens the DWARF of the file, or of its separate debug file. It returns nil, and the
// reason, if neither has DWARF that can be read. The caller holds mu.
func (e *ELF) openDWARF() (*dwarfIndex, Reason) {
	f := e.f
	if !hasDWARF(f) {
		f = e.debugFile()
		switch {
		case f != nil && hasDWARF(f):
		case e.f.Section(".gnu_debuglink") != nil:
			return nil, ReasonNoDebugFile
		default:
			return nil, ReasonNoDebug
		}
	}
	x := &dwarfIndex{}
	var alt *dwarf.Data
	if x.alt = e.altFile(f); x.alt != nil {
		alt, _ = dwarf.New(x.alt, nil, e.dwarfRoom(x.alt))
	}
	var err error
	if x.d, err = dwarf.New(f, alt, e.dwarfRoom(f)); err != nil {
		x.alt.Close()
		return nil, whyRefused(err)
	}
	x.learn()
	x.d.OpenSplit(&e.opts.find, func(f *elffile.File) { x.split = append(x.split, f) })
	if e.grown != nil {
		e.grown.Store(true)
	}
	return x, ReasonNone
}

// dwarfRoom returns the memory that a file's DWARF may take in bytes. It is half of the budget:
// with all of it, one file's DWARF and symbols would always exceed the budget, and would be
// dropped after each address and read again for the next. Without a budget it is what real
// programs need, by what f takes up.
func (e *ELF) dwarfRoom(f *elffile.File) int64 {
	if e.room == 0 {
		return max(48<<20, 6*f.Stored())
	}
	return e.room / 2
}

func hasDWARF(f *elffile.File) bool { return f.DebugSection("info") != nil }

// altLink returns the file that dwz moved common parts to: .gnu_debugaltlink contains its path,
// NUL and its build-id.
func altLink(f *elffile.File) (name string, id []byte) {
	b, err := f.Data(f.Section(".gnu_debugaltlink"))
	if i := bytes.IndexByte(b, 0); err == nil && i > 0 {
		return string(b[:i]), b[i+1:]
	}
	name, id, own := supplement(f)
	if own {
		return "", nil
	}
	return name, id
}

// supplement reads .debug_sup, the same link in DWARF 5 (7.3.6): a version of 2 bytes, a flag
// that is set in the file of common parts itself, the path, NUL, and an identifier after its
// length.
func supplement(f *elffile.File) (name string, id []byte, own bool) {
	b, err := f.Data(f.Section(".debug_sup"))
	if err != nil || len(b) < 5 {
		return "", nil, false
	}
	own, b = b[2] != 0, b[3:]
	i := bytes.IndexByte(b, 0)
	if i < 0 || i+1 >= len(b) || int(b[i+1]) != len(b)-i-2 {
		return "", nil, false
	}
	return string(b[:i]), b[i+2:], own
}

// isAlt reports whether a file is the one with that identifier.
func isAlt(f *elffile.File, id []byte) bool {
	_, sup, own := supplement(f)
	return len(id) > 0 && (f.BuildID() == hex.EncodeToString(id) || own && bytes.Equal(sup, id))
}

// altFile opens the file that altLink names.
func (e *ELF) altFile(f *elffile.File) *elffile.File {
	name, sum := altLink(f)
	if name == "" || e.opts.find.Open == nil {
		return nil
	}
	id := hex.EncodeToString(sum)
	paths := []string{name}
	if len(id) > 2 {
		for _, dir := range e.opts.find.Dirs {
			paths = append(paths, elffile.ByBuildID(dir, id))
		}
	}
	for _, p := range paths {
		if p[0] != '/' {
			continue
		}
		if alt := e.opts.find.Try(p); alt != nil {
			if isAlt(alt, sum) {
				return alt
			}
			alt.Close()
		}
	}
	return nil
}

// appendDWARF appends the frames of an address that fr names by its symbol, with
// positions and inlined calls.
func (e *ELF) appendDWARF(x *dwarfIndex, dst []Frame, fr Frame) []Frame {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := x.d.Bytes()
	calls := x.d.Calls(x.buf[:0], fr.ModuleOffset)
	x.buf = calls
	if len(calls) == 0 || calls[0].Line == 0 {
		x.learn()
	}
	if e.grown != nil && x.d.Bytes() != before {
		e.grown.Store(true)
	}
	if e.opts.noInline && len(calls) > 1 {
		calls = calls[len(calls)-1:]
	}
	for i := range calls {
		c := &calls[i]
		out := fr
		out.File, out.Line, out.Column = c.File, c.Line, c.Column
		if i < len(calls)-1 {
			out.Inlined = true
			out.Name = e.names.demangler.Demangle(c.Name)
			out.Confidence, out.Reason = ConfidenceExact, ReasonNone
			if out.Name == "" {
				out.Confidence, out.Reason = ConfidenceNone, ReasonNoSymbol
			}
		} else if fr.Name == "" && c.Name != "" {
			out.Name = e.names.demangler.Demangle(c.Name)
			out.Confidence, out.Reason = ConfidenceExact, ReasonNone
			out.Offset, out.Size = fr.ModuleOffset-c.Entry, c.End-c.Entry
		}
		dst = append(dst, out)
	}
	if len(calls) == 0 {
		dst = append(dst, fr)
	}
	return dst
}
