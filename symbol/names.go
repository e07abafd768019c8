package symbol

import "sync"

// names makes the strings that frames carry: copies of the bytes in a mapped
// string table, demangled, each made once and remembered within a bound. Frames
// own their strings, the mapping may go. It also remembers the frames of
// addresses whose source position took some work.
type names struct {
	demangler *Demangler // nil: names as they are

	mu     sync.Mutex
	memo   nameMemo                // guarded by mu
	frames memo[frameKey, []Frame] // guarded by mu
}

// nameKey is a name's place: which file, which of its string tables, and where
// in that. It is one number because that is what maps are fastest with.
type nameKey uint64

func newNameKey(file uint32, t stringTable, off uint32) nameKey {
	return nameKey(file)<<35 | nameKey(t)<<32 | nameKey(off)
}

func (k nameKey) table() stringTable { return stringTable(k >> 32 & 7) }
func (k nameKey) off() uint32        { return uint32(k) }

// frameKey is an address in a file.
type frameKey struct {
	file  uint32
	vaddr uint64
}

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
	n := &names{demangler: d}
	n.memo.limit = limit / 2
	n.frames.limit = limit / 2
	n.frames.costFunc = func(f []Frame) int64 { return int64(len(f)) * frameSize }
	return n
}

// frameSize is the size of a Frame, about.
const frameSize = 176

// get returns the name for k, made from what e has there if it is not remembered.
func (n *names) get(k nameKey, e *ELF) string {
	n.mu.Lock()
	s, ok := n.memo.get(k)
	n.mu.Unlock()
	if ok {
		return s
	}
	raw := e.rawName(k.table(), k.off())
	switch k.table() {
	case tabSym:
		s = n.demangler.demangle(string(unversioned(raw)))
	case tabPLT:
		s = n.demangler.demangle(string(raw)) + "@plt"
	default:
		s = string(raw)
	}
	n.mu.Lock()
	n.memo.put(k, s)
	n.mu.Unlock()
	return s
}

// getFrames returns what putFrames remembered.
func (n *names) getFrames(k frameKey) ([]Frame, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.frames.get(k)
}

func (n *names) putFrames(k frameKey, f []Frame) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frames.put(k, f)
}

func (n *names) bytes() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.memo.bytes() + n.frames.bytes()
}
