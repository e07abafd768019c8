package symbol

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// JITDump names generated code by a jitdump file, jit-PID.dump, in the format of
// tools/perf/Documentation/jitdump-specification.txt. It contains the code that was loaded or
// moved, and its source lines. If code was loaded over older code, the later record counts. It
// is immutable.
type JITDump struct {
	m     PerfMap
	lines [][]jitLine // of each entry of m
	files []string
	// Truncated is set if the file ended inside a record: it was still being written.
	Truncated bool
}

// jitLine is the source line of the code from an offset on.
type jitLine struct {
	off  uint32
	line int32
	file uint32
}

// Records of a jitdump file.
const (
	jitCodeLoad  = 0
	jitCodeMove  = 1
	jitDebugInfo = 2
)

const (
	jitMagic     = 0x4a695444 // "JiTD"
	jitMagicSwap = 0x4454694a
	// maxJITRecord bounds the part of a record that is read: the code itself is skipped.
	maxJITRecord = 16 << 20
	maxJITLines  = 1 << 24
)

// errJIT is the error for a file that is not a jitdump.
var errJIT = errors.New("not a jitdump file")

// jitParser reads the records of a file.
type jitParser struct {
	d       *JITDump
	r       *bufio.Reader
	o       binary.ByteOrder
	arena   strings.Builder
	byCode  map[uint64]int       // entry of each code index
	pending map[uint64][]jitLine // lines that came before their code, by address
	fileNum map[string]uint32
	nlines  int
	buf     []byte
}

// The memory that a jitdump's parts take while it is read, about, in bytes, besides those of a
// perf map.
const (
	jitCodeCost = 128 // of a piece of code
	jitLineCost = 32
	jitFileCost = 96
)

// ParseJITDump reads a jitdump file. If the file ends early, it returns the records that
// are whole and sets Truncated. It returns an error if the file is not a jitdump, if the
// result takes more than 256 MiB of memory, or if r fails.
func ParseJITDump(r io.Reader) (*JITDump, error) { return parseJITDump(r, maxPerfMap) }

func parseJITDump(r io.Reader, room int64) (*JITDump, error) {
	p := &jitParser{
		d: &JITDump{m: PerfMap{room: room}}, r: bufio.NewReaderSize(r, 64<<10), byCode: map[uint64]int{},
		pending: map[uint64][]jitLine{}, fileNum: map[string]uint32{},
	}
	if err := p.header(); err != nil {
		return nil, err
	}
	for {
		err := p.record()
		if p.d.m.room < 0 {
			return nil, fmt.Errorf("jitdump: %w", errPerfMap)
		}
		if err == io.EOF {
			break
		}
		if err == io.ErrUnexpectedEOF {
			p.d.Truncated = true
			break
		}
		if err != nil {
			return nil, fmt.Errorf("jitdump: %w", err)
		}
	}
	p.d.m.arena = p.arena.String()
	p.d.m.build()
	return p.d, nil
}

func (p *jitParser) header() error {
	var h [40]byte
	if _, err := io.ReadFull(p.r, h[:]); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return errJIT
		}
		return fmt.Errorf("jitdump: %w", err)
	}
	switch binary.LittleEndian.Uint32(h[:]) {
	case jitMagic:
		p.o = binary.LittleEndian
	case jitMagicSwap:
		p.o = binary.BigEndian
	default:
		return errJIT
	}
	if v := p.o.Uint32(h[4:]); v != 1 {
		return fmt.Errorf("jitdump: version %d is not known", v)
	}
	size := p.o.Uint32(h[8:])
	if size < uint32(len(h)) {
		return errJIT
	}
	return p.discard(uint64(size) - uint64(len(h)))
}

func (p *jitParser) discard(n uint64) error {
	for n > 0 {
		m, err := p.r.Discard(int(min(n, 1<<20)))
		n -= uint64(m)
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// record reads a record: its id, its size with this header, a time stamp.
func (p *jitParser) record() error {
	var h [16]byte
	if _, err := io.ReadFull(p.r, h[:]); err != nil {
		return err
	}
	id, size := p.o.Uint32(h[:]), p.o.Uint32(h[4:])
	if size < 16 {
		return errors.New("a record is smaller than its header")
	}
	left := uint64(size) - 16
	want := left
	switch id {
	case jitCodeLoad:
		// The name is searched for; the code after it is not needed.
		want = min(left, 40+maxPerfLine)
	case jitCodeMove, jitDebugInfo:
		want = min(left, maxJITRecord)
	default:
		return p.discard(left)
	}
	p.buf = slices.Grow(p.buf[:0], int(want))
	b := p.buf[:want]
	if _, err := io.ReadFull(p.r, b); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	switch id {
	case jitCodeLoad:
		p.load(b)
	case jitCodeMove:
		p.move(b)
	case jitDebugInfo:
		p.debug(b)
	}
	return p.discard(left - want)
}

// load adds code: pid, tid, vma, address, size, index, name, bytes.
func (p *jitParser) load(b []byte) {
	if len(b) < 41 || len(p.d.m.ents) >= maxJITSymbols {
		p.d.m.Bad++
		return
	}
	addr, size, index := p.o.Uint64(b[16:]), p.o.Uint64(b[24:]), p.o.Uint64(b[32:])
	end := slices.Index(b[40:], 0)
	if end <= 0 || addr+size < addr || size == 0 {
		p.d.m.Bad++
		return
	}
	p.byCode[index] = len(p.d.m.ents)
	p.add(addr, size, uint32(p.arena.Len()), uint32(end), p.pending[addr])
	p.arena.Write(b[40 : 40+end])
	delete(p.pending, addr)
}

func (p *jitParser) add(addr, size uint64, name, n uint32, lines []jitLine) {
	p.d.m.take(jitCodeCost + int(n))
	p.d.m.ents = append(p.d.m.ents, perfEntry{addr, size, name, n})
	p.d.lines = append(p.d.lines, lines)
}

// move adds code again at its new address: pid, tid, vma, old address, new
// address, size, index.
func (p *jitParser) move(b []byte) {
	if len(b) < 48 || len(p.d.m.ents) >= maxJITSymbols {
		p.d.m.Bad++
		return
	}
	addr, size := p.o.Uint64(b[24:]), p.o.Uint64(b[32:])
	i, ok := p.byCode[p.o.Uint64(b[40:])]
	if !ok || addr+size < addr || size == 0 {
		p.d.m.Bad++
		return
	}
	old := p.d.m.ents[i]
	p.byCode[p.o.Uint64(b[40:])] = len(p.d.m.ents)
	p.add(addr, size, old.name, old.len, p.d.lines[i])
}

// debug keeps the lines of code that is to be loaded: address, number of
// entries, and for each address, line, discriminator, file name.
func (p *jitParser) debug(b []byte) {
	if len(b) < 16 {
		p.d.m.Bad++
		return
	}
	code, n := p.o.Uint64(b), p.o.Uint64(b[8:])
	b = b[16:]
	var lines []jitLine
	file := p.file("")
	p.d.m.take(jitCodeCost)
	for i := uint64(0); i < n && len(b) > 16 && p.nlines < maxJITLines && p.d.m.room >= 0; i++ {
		addr, line := p.o.Uint64(b), p.o.Uint32(b[8:])
		end := slices.Index(b[16:], 0)
		if end < 0 {
			break
		}
		name := string(b[16 : 16+end])
		b = b[16+end+1:]
		if name != "\xff" { // the same file as before
			file = p.file(name)
		}
		if addr-code <= 1<<32-1 {
			lines = append(lines, jitLine{uint32(addr - code), int32(line), file})
			p.nlines++
			p.d.m.room -= jitLineCost
		}
	}
	slices.SortStableFunc(lines, func(a, b jitLine) int { return cmp.Compare(a.off, b.off) })
	p.pending[code] = lines
}

func (p *jitParser) file(name string) uint32 {
	i, ok := p.fileNum[name]
	if !ok {
		i = uint32(len(p.d.files))
		p.d.m.room -= jitFileCost + 2*int64(len(name))
		p.d.files = append(p.d.files, name)
		p.fileNum[name] = i
	}
	return i
}

// Bad returns the number of records that could not be read.
func (d *JITDump) Bad() int { return d.m.Bad }

// Resolve implements Resolver.
func (d *JITDump) Resolve(dst []Frame, pcs []uint64) []Frame {
	for i, pc := range pcs {
		fr := Frame{Index: i, ModuleOffset: pc, Kind: KindUser, Reason: ReasonAnonymous}
		d.name(&fr, pc)
		dst = append(dst, fr)
	}
	return dst
}

// name sets the name and line of an address, if the dump has it.
func (d *JITDump) name(fr *Frame, pc uint64) bool {
	if !d.m.name(fr, pc) {
		return false
	}
	lines := d.lines[d.m.entry[d.m.starts.Find(pc)]]
	i, found := slices.BinarySearchFunc(lines, fr.Offset, func(l jitLine, off uint64) int {
		if uint64(l.off) < off {
			return -1
		} else if uint64(l.off) > off {
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	if i >= 0 {
		fr.File, fr.Line = d.files[lines[i].file], int(lines[i].line)
	}
	return true
}

func (d *JITDump) bytes() int64 {
	n := d.m.bytes()
	for _, l := range d.lines {
		n += int64(24 + 12*len(l))
	}
	for _, f := range d.files {
		n += int64(16 + len(f))
	}
	return n
}

var _ Resolver = (*JITDump)(nil)
