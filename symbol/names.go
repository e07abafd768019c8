package symbol

import (
	"slices"
	"sync"
)

// names makes the strings that frames carry: copies of the bytes in a mapped
// string table, demangled, each made once and remembered within a bound. Frames
// own their strings, the mapping may go. It also remembers the frames of
// addresses whose source position took some work.
type names struct {
	demangler *Demangler // nil: names as they are
	limit     int64      // bytes

	mu     sync.Mutex // held while something is put into one of these
	memo   sharedMemo[string]
	frames sharedMemo[[]Frame]
	seen   seenFilter // addresses whose frames are not remembered yet
}

// nameKey is a name's place: which file, which of its string tables, and where
// in that.
func nameKey(file uint32, t stringTable, off uint32) memoKey {
	return memoKey{(uint64(file)+1)<<8 | uint64(t), uint64(off)}
}

// frameKey is an address in a file.
func frameKey(file uint32, vaddr uint64) memoKey { return memoKey{(uint64(file) + 1) << 8, vaddr} }

// stringTable tells the string tables of a file apart.
type stringTable uint8

const (
	tabSym    stringTable = iota + 1 // .strtab, .dynstr
	tabPLT                           // .dynstr, of a procedure linkage table entry
	tabGoFunc                        // pclntab's function names
	tabGoFile                        // pclntab's paths
)

// defaultNames is the memory for remembered names: some 40,000 of them.
const defaultNames = 4 << 20

func newNames(d *Demangler, limit int64) *names {
	if limit <= 0 {
		limit = defaultNames
	}
	n := &names{demangler: d, limit: limit}
	n.memo.limit, n.frames.limit = limit/2, limit/2
	n.memo.cost = func(s string) int64 { return int64(len(s)) }
	n.frames.cost = func(f []Frame) int64 { return int64(len(f)) * frameSize }
	return n
}

// frameSize is the size of a Frame.
const frameSize = 128

// get returns the name at a place in e, made from what is there if it is not
// remembered.
func (n *names) get(e *ELF, t stringTable, off uint32) string {
	if s, ok := n.known(e.id, t, off); ok {
		return s
	}
	raw := e.rawName(t, off)
	var s string
	switch t {
	case tabSym:
		s = n.demangler.demangle(string(unversioned(raw)))
	case tabPLT:
		s = n.demangler.demangle(string(raw)) + "@plt"
	default:
		s = string(raw)
	}
	n.mu.Lock()
	n.memo.put(nameKey(e.id, t, off), s)
	n.mu.Unlock()
	return s
}

// known returns the name at a place if it is remembered.
func (n *names) known(file uint32, t stringTable, off uint32) (string, bool) {
	k := nameKey(file, t, off)
	s, aged, ok := n.memo.get(k)
	if aged {
		n.mu.Lock()
		n.memo.put(k, s)
		n.mu.Unlock()
	}
	return s, ok
}

// getFrames returns what offerFrames remembered.
func (n *names) getFrames(k memoKey) ([]Frame, bool) {
	f, aged, ok := n.frames.get(k)
	if aged {
		n.putFrames(k, f)
	}
	return f, ok
}

// offerFrames remembers a copy of the frames of an address, while there is room;
// then only if they are asked for repeatedly.
func (n *names) offerFrames(k memoKey, f []Frame) {
	if n.frames.hasRoom(f) || n.seen.again(k) {
		n.putFrames(k, slices.Clone(f))
	}
}

func (n *names) putFrames(k memoKey, f []Frame) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frames.put(k, f)
}

func (n *names) bytes() int64 { return n.memo.bytes() + n.frames.bytes() }
