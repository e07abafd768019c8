package symbol

import (
	"bytes"
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/symbol/internal/index"
)

// PerfMap names generated code by a perf map, the file /tmp/perf-PID.map that JIT compilers
// write: lines of "START SIZE NAME", addresses and sizes in hexadecimal
// (tools/perf/Documentation/jit-interface.txt). If entries overlap, the later line counts:
// compilers reuse memory. It is immutable.
type PerfMap struct {
	starts index.Addrs // the beginnings of the pieces
	end    []uint64    // their ends
	entry  []uint32    // the entries that they are part of
	ents   []perfEntry
	arena  string
	room   int64 // bytes that more entries may take
	// Bad is the number of lines that could not be read.
	Bad int
}

type perfEntry struct {
	start, size uint64
	name        uint32 // in arena
	len         uint32
}

// maxPerfLine is the longest line of a perf map that is read; Java methods with
// their signatures can be long.
const maxPerfLine = 64 << 10

// maxPerfMap is the most bytes of a perf map's text that are read, and about the most memory of
// its entries.
const maxPerfMap = 256 << 20

// perfEntryCost is the most memory, in bytes, that an entry takes while the map is made,
// without its name.
const perfEntryCost = 192

// errPerfMap is the error for generated code with more names than the bound.
var errPerfMap = fmt.Errorf("perf map: %w", elffile.ErrTooLarge)

// ParsePerfMap reads a perf map. Lines that cannot be read are left out and counted in Bad.
// Text beyond 256 MiB, and entries beyond 256 MiB of memory, are left out too. The error is
// that of r.
func ParsePerfMap(r io.Reader) (*PerfMap, error) {
	p := &PerfMap{room: maxPerfMap}
	if err := p.read(r); err != nil && !errors.Is(err, errPerfMap) {
		return nil, err
	}
	p.build()
	return p, nil
}

// parsePerfMap is ParsePerfMap with a bound: a map that takes more memory than room is an
// error, because its last lines are the ones that count.
func parsePerfMap(r io.Reader, room int64) (*PerfMap, error) {
	p := &PerfMap{room: room}
	if err := p.read(r); err != nil {
		return nil, err
	}
	p.build()
	return p, nil
}

func (p *PerfMap) read(r io.Reader) error {
	var arena strings.Builder
	defer func() { p.arena = arena.String() }()
	buf := make([]byte, 2*maxPerfLine)
	n, total := 0, 0 // n: bytes of buf, a line that goes on
	tooLong := false
	for total < maxPerfMap && p.room >= 0 {
		m, err := r.Read(buf[n:])
		total += m
		rest, have := 0, n+m // rest: the beginning of the next line
		for at := n; ; {
			i := bytes.IndexByte(buf[at:have], '\n')
			if i < 0 {
				break
			}
			if !tooLong {
				p.line(&arena, buf[rest:at+i])
			}
			tooLong = false
			at += i + 1
			rest = at
		}
		n = copy(buf, buf[rest:have])
		if n >= maxPerfLine {
			if !tooLong {
				p.Bad++
			}
			tooLong, n = true, 0
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("perf map: %w", err)
		}
	}
	// The last line may still be being written: it counts if it is whole.
	if n > 0 && !tooLong {
		p.line(&arena, buf[:n])
	}
	if p.room < 0 {
		return errPerfMap
	}
	return nil
}

func (p *PerfMap) line(arena *strings.Builder, b []byte) {
	b = bytes.TrimRight(b, "\r ")
	if len(b) == 0 {
		return
	}
	start, rest, ok1 := hexField(b)
	size, name, ok2 := hexField(rest)
	if !ok1 || !ok2 || len(name) == 0 || start+size < start || len(p.ents) >= maxJITSymbols {
		p.Bad++
		return
	}
	if p.take(len(name)); p.room < 0 {
		return
	}
	if size == 0 {
		size = 1 // some writers write 0
	}
	p.ents = append(p.ents, perfEntry{start, size, uint32(arena.Len()), uint32(len(name))})
	arena.Write(name)
}

// take subtracts the memory of an entry with a name of n bytes from room.
func (p *PerfMap) take(n int) { p.room -= perfEntryCost + 3*int64(n) }

// maxJITSymbols bounds a table.
const maxJITSymbols = 1 << 24

// hexField reads a hexadecimal number, with or without 0x, and the blanks after it.
func hexField(b []byte) (v uint64, rest []byte, ok bool) {
	if len(b) > 2 && b[0] == '0' && (b[1] == 'x' || b[1] == 'X') {
		b = b[2:]
	}
	v, i := kallsyms.Hex(b)
	if i == 0 || i > 16 || i == len(b) || b[i] != ' ' && b[i] != '\t' {
		return 0, nil, false
	}
	return v, bytes.TrimLeft(b[i:], " \t"), true
}

// build cuts the entries into pieces that do not overlap.
func (p *PerfMap) build() {
	order := make([]uint32, len(p.ents))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		if c := cmp.Compare(p.ents[a].start, p.ents[b].start); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	var starts []uint64
	piece := func(from, to uint64, e uint32) {
		if from >= to {
			return
		}
		n := len(starts)
		if n > 0 && p.entry[n-1] == e && p.end[n-1] == from {
			p.end[n-1] = to
			return
		}
		starts = append(starts, from)
		p.end = append(p.end, to)
		p.entry = append(p.entry, e)
	}
	var active latest // entries with the sweep's address, the last line on top
	at := uint64(0)
	advance := func(to uint64) {
		for len(active) > 0 && at < to {
			e := active[0]
			end := p.ents[e].start + p.ents[e].size
			if end <= at {
				heap.Pop(&active)
				continue
			}
			next := min(end, to)
			piece(at, next, e)
			at = next
		}
		at = to
	}
	for _, e := range order {
		advance(p.ents[e].start)
		// Entries that are covered are removed at once: many lines can be for one address.
		end := p.ents[e].start + p.ents[e].size
		for len(active) > 0 && active[0] < e && p.ents[active[0]].start+p.ents[active[0]].size <= end {
			heap.Pop(&active)
		}
		if len(active) == 0 || active[0] < e || p.ents[active[0]].start+p.ents[active[0]].size < end {
			heap.Push(&active, e)
		}
	}
	advance(1<<64 - 1)
	p.starts = index.NewAddrs(starts)
}

// latest is a heap of entry numbers, the highest first.
type latest []uint32

func (h latest) Len() int           { return len(h) }
func (h latest) Less(i, j int) bool { return h[i] > h[j] }
func (h latest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *latest) Push(x any) { *h = append(*h, x.(uint32)) }

// Pop implements heap.Interface.
func (h *latest) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// Resolve implements Resolver.
func (p *PerfMap) Resolve(dst []Frame, pcs []uint64) []Frame {
	for i, pc := range pcs {
		fr := Frame{Index: i, ModuleOffset: pc, Kind: KindUser, Reason: ReasonAnonymous}
		p.name(&fr, pc)
		dst = append(dst, fr)
	}
	return dst
}

// name sets the name of an address, if the map has it.
func (p *PerfMap) name(fr *Frame, pc uint64) bool {
	i := p.starts.Find(pc)
	if i < 0 || pc >= p.end[i] {
		return false
	}
	e := &p.ents[p.entry[i]]
	fr.Name = p.arena[e.name : e.name+e.len]
	fr.Offset, fr.Size = pc-e.start, e.size
	fr.Kind, fr.Confidence, fr.Reason = KindJIT, ConfidenceExact, ReasonNone
	fr.Module = "[jit]"
	return true
}

func (p *PerfMap) bytes() int64 {
	return p.starts.Bytes() + int64(8*cap(p.end)+4*cap(p.entry)+24*cap(p.ents)+len(p.arena))
}

var _ Resolver = (*PerfMap)(nil)
