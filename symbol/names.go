package symbol

import (
	"slices"
	"sync"

	"github.com/borescope/borescope/symbol/internal/index"
)

// names makes the strings of frames: demangled copies of the bytes in a mapped string table,
// each made once and kept in bounded memory. Frames own their strings, so the mapping may go.
// It also keeps the frames of addresses whose source position took some work.
type names struct {
	demangler *Demangler // nil: names as they are
	limit     int64      // bytes

	mu     sync.Mutex // held while a value is put into one of these
	memo   index.SharedMemo[string]
	frames index.SharedMemo[[]Frame]
	seen   index.SeenFilter // addresses whose frames are not kept yet
}

// nameKey returns the key of a name: the file, the string table, and the offset in that.
func nameKey(file uint32, t stringTable, off uint32) index.MemoKey {
	return index.MemoKey{What: (uint64(file)+1)<<8 | uint64(t), At: uint64(off)}
}

// frameKey returns the key of an address in a file.
func frameKey(file uint32, vaddr uint64) index.MemoKey {
	return index.MemoKey{What: (uint64(file) + 1) << 8, At: vaddr}
}

// stringTable is one of the string tables of a file.
type stringTable uint8

const (
	tabSym    stringTable = iota + 1 // .strtab, .dynstr
	tabPLT                           // .dynstr, of a procedure linkage table entry
	tabGoFunc                        // pclntab's function names
	tabGoFile                        // pclntab's paths
)

// defaultNames is the memory for kept names, in bytes: some 40,000 of them.
const defaultNames = 4 << 20

func newNames(d *Demangler, limit int64) *names {
	if limit <= 0 {
		limit = defaultNames
	}
	n := &names{demangler: d, limit: limit}
	n.memo.Limit, n.frames.Limit = limit/2, limit/2
	n.memo.Cost = func(s string) int64 { return int64(len(s)) }
	n.frames.Cost = func(f []Frame) int64 { return int64(len(f)) * frameSize }
	return n
}

// frameSize is the size of a Frame.
const frameSize = 128

// get returns the name at a place in e. It makes the name from the file's bytes if it is not
// kept.
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
	n.memo.Put(nameKey(e.id, t, off), s)
	n.mu.Unlock()
	return s
}

// known returns the name at a place if it is kept.
func (n *names) known(file uint32, t stringTable, off uint32) (string, bool) {
	k := nameKey(file, t, off)
	s, aged, ok := n.memo.Get(k)
	if aged {
		n.mu.Lock()
		n.memo.Put(k, s)
		n.mu.Unlock()
	}
	return s, ok
}

// getFrames returns the frames that offerFrames kept.
func (n *names) getFrames(k index.MemoKey) ([]Frame, bool) {
	f, aged, ok := n.frames.Get(k)
	if aged {
		n.putFrames(k, f)
	}
	return f, ok
}

// offerFrames keeps a copy of the frames of an address while there is room; then only if it is
// called repeatedly with the key.
func (n *names) offerFrames(k index.MemoKey, f []Frame) {
	if n.frames.HasRoom(f) || n.seen.Again(k) {
		n.putFrames(k, slices.Clone(f))
	}
}

func (n *names) putFrames(k index.MemoKey, f []Frame) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frames.Put(k, f)
}

func (n *names) bytes() int64 { return n.memo.Bytes() + n.frames.Bytes() }
