package stack

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/stack/internal/rules"
)

// OpenSFrame reads the .sframe section of the ELF file at path (SFrame format versions 1 to
// 3, written by binutils 2.40 and later). The result is the same kind of table as that of
// call frame information, for the same walkers; frames found by it have the source
// SourceSFrame. It has rules for the CFA, the frame pointer and the return address only.
// Functions with version 3's flexible rows (those that align their stack) are left out and
// counted as bad. The file is not used after OpenSFrame returns.
func OpenSFrame(path string) (*CFITable, error) {
	f, err := elffile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := readSFrame(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func readSFrame(f *elffile.File) (t *CFITable, err error) {
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	s := f.Section(".sframe")
	if s == nil || f.Type == elf.ET_REL {
		return nil, fmt.Errorf("SFrame: %w", ErrNoTable)
	}
	data, err := f.Data(s)
	if err != nil {
		return nil, err
	}
	return parseSFrame(data, s.Addr, lowestAddress(f), cfiRoom(f))
}

// The format: binutils' include/sframe.h and "The SFrame format", versions 1 to 3.
const (
	sframeMagic     = 0xdee2
	sframeHeaderLen = 28
	sframeFDE1      = 17
	sframeFDE2      = 20
	sframeFDE3      = 16
	sframePCRel     = 4 // flag: function addresses count from their own field
	sframeARM64     = 2
	sframeAMD64     = 3
	sframePLT       = 16 // bytes that a mask-type function repeats after, in version 1
)

var errBadSFrame = errors.New("malformed SFrame data")

// sframe is a section while it is read.
type sframe struct {
	b       *cfiBuilder
	data    []byte
	addr    uint64
	version uint8
	flags   uint8
	arm     bool
	fixedRA int8
	fixedFP int8
	fres    dwarfReader
	left    int // rows that may be read yet
	rows    []sframeRow
}

type sframeRow struct {
	start uint64 // counted from the function
	rule  uint16
}

func parseSFrame(data []byte, addr, base uint64, room int64) (*CFITable, error) {
	le := binary.LittleEndian
	if len(data) < sframeHeaderLen || le.Uint16(data) != sframeMagic {
		return nil, errBadSFrame
	}
	s := &sframe{
		data: data, addr: addr, version: data[2], flags: data[3], fixedFP: int8(data[5]),
		fixedRA: int8(data[6]),
	}
	if s.version < 1 || s.version > 3 {
		return nil, fmt.Errorf("SFrame version %d: %w", s.version, errors.ErrUnsupported)
	}
	machine := elf.EM_X86_64
	switch data[4] {
	case sframeAMD64:
	case sframeARM64:
		machine, s.arm = elf.EM_AARCH64, true
	default:
		return nil, fmt.Errorf("SFrame of machine %d: %w", data[4], errors.ErrUnsupported)
	}
	s.b = newCFIBuilder(machine, base, room)
	body := uint64(sframeHeaderLen) + uint64(data[7])
	fdes, freLen := uint64(le.Uint32(data[8:])), uint64(le.Uint32(data[16:]))
	fdeOff, freOff := body+uint64(le.Uint32(data[20:])), body+uint64(le.Uint32(data[24:]))
	size := [...]uint64{1: sframeFDE1, 2: sframeFDE2, 3: sframeFDE3}[s.version]
	if fdes > uint64(len(data))/size || fdeOff+fdes*size > uint64(len(data)) ||
		freOff+freLen > uint64(len(data)) {
		return nil, errBadSFrame
	}
	s.fres = dwarfReader{b: data[freOff : freOff+freLen]}
	s.left = int(freLen) // a row takes two bytes or more, and belongs to one function
	for i := range fdes {
		if s.fde(fdeOff + i*size) {
			s.b.stats.FDEs++
		} else {
			s.b.stats.Bad++
		}
		if s.left < 0 || s.b.full() {
			return nil, errTooMuch
		}
	}
	t := s.b.table()
	t.how = SourceSFrame
	return t, nil
}

// fde reads a function's description.
func (s *sframe) fde(at uint64) bool {
	le := binary.LittleEndian
	b := s.data[at:]
	if s.version == 3 {
		return s.fde3(at, int64(le.Uint64(b)), uint64(le.Uint32(b[8:])), uint64(le.Uint32(b[12:])))
	}
	repeat := uint64(sframePLT)
	if s.version == 2 {
		repeat = uint64(b[17])
	}
	start := s.start(at, int64(int32(le.Uint32(b))))
	return s.function(start, uint64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:])), le.Uint32(b[12:]),
		b[16], repeat)
}

// start is the address of a function whose description is at an offset of the
// section.
func (s *sframe) start(at uint64, off int64) uint64 {
	start := s.addr + uint64(off)
	if s.flags&sframePCRel != 0 {
		start += at
	}
	return start
}

// fde3 reads the second part of a description of version 3, which stands before
// the function's rows.
func (s *sframe) fde3(at uint64, off int64, size, rows uint64) bool {
	const attrLen, typeMask = 5, 0x1f
	if rows > uint64(len(s.fres.b)) || uint64(len(s.fres.b))-rows < attrLen {
		return false
	}
	b := s.fres.b[rows:]
	if b[3]&typeMask != 0 { // flexible rows
		return false
	}
	return s.function(s.start(at, off), size, rows+attrLen, uint32(binary.LittleEndian.Uint16(b)),
		b[2], uint64(b[4]))
}

// function reads the n rows of a function at an offset of the rows.
func (s *sframe) function(start, size, freAt uint64, n uint32, info uint8, repeat uint64) bool {
	if freAt > uint64(len(s.fres.b)) || uint64(n) > uint64(len(s.fres.b)) {
		return false
	}
	rd := dwarfReader{b: s.fres.b, pos: int(freAt)}
	s.rows = s.rows[:0]
	for range n {
		if s.left--; s.left < 0 || !s.fre(&rd, info&15) {
			return false
		}
	}
	from := start - s.b.base
	if size == 0 || len(s.rows) == 0 {
		return true
	}
	if from > 1<<32-1 || from+size > 1<<32-1 {
		return false
	}
	const mask = 1 << 4 // the rules repeat: a PLT
	if info&mask == 0 {
		repeat = size
	} else if repeat == 0 {
		return false
	}
	return s.emit(from, size, repeat)
}

// emit writes a function's rows, repeatedly for a PLT.
func (s *sframe) emit(from, size, repeat uint64) bool {
	first := len(s.b.pcs)
	const most = 1 << 17 // rows of one function; a PLT of libLLVM has 20,000
	if size/repeat*uint64(len(s.rows)) > most {
		return false
	}
	if s.rows[0].start > 0 {
		s.rows = slices.Insert(s.rows, 0, sframeRow{})
	}
	for at := uint64(0); at < size; at += repeat {
		last := uint64(0)
		for _, r := range s.rows {
			if r.start < last || at+r.start >= size || r.start >= repeat {
				break
			}
			last = r.start
			s.b.pcs = append(s.b.pcs, uint32(from+at+r.start))
			s.b.index = append(s.b.index, r.rule)
		}
	}
	s.b.segs = append(s.b.segs,
		cfiSeg{uint32(from), uint32(from + size), uint32(first), uint32(len(s.b.pcs) - first)})
	return true
}

// fre reads one row: where it begins, what the CFA counts from, and offsets.
func (s *sframe) fre(rd *dwarfReader, kind uint8) bool {
	var r sframeRow
	switch kind {
	case 0:
		r.start = uint64(rd.u8())
	case 1:
		r.start = uint64(rd.u16())
	case 2:
		r.start = uint64(rd.u32())
	default:
		return false
	}
	info := rd.u8()
	n := int(info >> 1 & 15)
	var offs [15]int32
	for i := range n {
		switch info >> 5 & 3 {
		case 0:
			offs[i] = int32(int8(rd.u8()))
		case 1:
			offs[i] = int32(int16(rd.u16()))
		case 2:
			offs[i] = int32(rd.u32())
		default:
			return false
		}
	}
	if rd.err != nil || n > 3 {
		return false
	}
	if n == 0 { // the outermost frame, since binutils 2.45
		var end cfiState
		end.cfa = rules.CFA{Kind: rules.CFAReg, Reg: s.reg(true)}
		end.setReg(rules.ReturnReg(s.b.machine), rules.RegRule{Kind: rules.RegUndef})
		r.rule = s.b.intern(&end)
	} else {
		r.rule = s.b.intern(s.state(info&1 != 0, offs[:n]))
	}
	s.rows = append(s.rows, r)
	return true
}

func (s *sframe) reg(sp bool) uint8 {
	switch {
	case s.arm && sp:
		return ARM64SP
	case s.arm:
		return ARM64FP
	case sp:
		return AMD64RSP
	}
	return AMD64RBP
}

// state returns the row as call frame information has it. The return address is at a fixed
// offset, or (on arm64) the second number; the frame pointer the next.
func (s *sframe) state(sp bool, offs []int32) *cfiState {
	st := &cfiState{cfa: rules.CFA{Kind: rules.CFAReg, Reg: s.reg(sp), Off: offs[0]}}
	offs = offs[1:]
	if s.fixedRA != 0 {
		st.setReg(rules.ReturnReg(s.b.machine),
			rules.RegRule{Kind: rules.RegAtCFA, Off: int32(s.fixedRA)})
	} else if len(offs) > 0 {
		st.setReg(rules.ReturnReg(s.b.machine), rules.RegRule{Kind: rules.RegAtCFA, Off: offs[0]})
		offs = offs[1:]
	}
	if s.fixedFP != 0 {
		st.setReg(uint64(s.reg(false)), rules.RegRule{Kind: rules.RegAtCFA, Off: int32(s.fixedFP)})
	} else if len(offs) > 0 {
		st.setReg(uint64(s.reg(false)), rules.RegRule{Kind: rules.RegAtCFA, Off: offs[0]})
	}
	return st
}
