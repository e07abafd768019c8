package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/borescope/borescope/internal/bench/peer"
)

// What the code says of a call, at the place of the outer function: an oracle besides perf.
const (
	callProven   = "to the inner function"            // a call, of the function in which the inner place is
	callPossible = "through a pointer or a PLT"       // a call, of whatever
	callJumped   = "to one that jumps there"          // a call of another function, which ends with a jump to it
	callPointer  = "to one that jumps by a pointer"   // or by a table
	callSignal   = "of a signal's handler"            // or what it interrupted
	callElse     = "to another function"              // which does not jump
	callNone     = "not at all: no call is before it" // another instruction
	callUnread   = "unread"
)

// code reads the instructions of files. It is for amd64.
type code map[string]*codeFile

// codeFile is what is known of a file: nothing if it can't be read.
type codeFile struct {
	file   *elf.File
	starts []uint64 // of functions, by .eh_frame_hdr, ascending
	plt    []*elf.Section
}

// judge returns what the code says of a call.
func (c code) judge(call peer.Call) string {
	path, off, ok := placeOf(call.Outer)
	f := c.open(path)
	if !ok || f == nil {
		return callUnread
	}
	at, ok := f.address(off)
	b := f.read(at-7+1, 7) // off is the last byte of the call
	if !ok || len(b) < 7 {
		return callUnread
	}
	if c.trampoline(call.Outer) || c.trampoline(call.Inner) {
		return callSignal
	}
	target := at + 1 + uint64(int64(int32(binary.LittleEndian.Uint32(b[3:]))))
	direct := b[2] == 0xe8 && f.read(target, 1) != nil
	if direct && f.inPLT(target) {
		return callPossible
	}
	if direct {
		path, to, _ := placeOf(call.Inner)
		if inner, ok := f.address(to); ok && c.open(path) == f {
			switch start := f.start(inner); {
			case start == target:
				return callProven
			case f.jumps(target, start, 2):
				return callJumped
			}
		}
		if f.jumpsElsewhere(target) {
			return callPointer
		}
	}
	// FF /2, of 2 bytes and those of its operand.
	for i := range len(b) - 1 {
		if b[i] == 0xff && b[i+1]>>3&7 == 2 {
			return callPossible
		}
	}
	switch {
	case direct && call.Inner == "":
		return callPossible // the innermost place is not in a Call
	case direct:
		return callElse
	}
	return callNone
}

func (f *codeFile) inPLT(addr uint64) bool {
	return slices.ContainsFunc(f.plt, func(s *elf.Section) bool { return addr >= s.Addr && addr < s.Addr+s.Size })
}

// jumps reports whether a function has a jump to another one, as before a part that is rarely executed or
// instead of a last call, directly or through so many others.
func (f *codeFile) jumps(from, to uint64, through int) bool {
	b := f.read(from, int(f.end(from)-from))
	for i := range len(b) - 4 {
		if b[i] != 0xe9 && (i == 0 || b[i-1] != 0x0f || b[i]&0xf0 != 0x80) {
			continue
		}
		at := f.start(from + uint64(i) + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(b[i+1:])))))
		if at == to || at != from && at != 0 && through > 0 && f.jumps(at, to, through-1) {
			return true
		}
	}
	return false
}

// jumpsElsewhere reports whether a function has a jump to an address that it computes, FF /4, or to a PLT.
func (f *codeFile) jumpsElsewhere(from uint64) bool {
	b := f.read(from, int(f.end(from)-from))
	for i := range len(b) - 1 {
		if b[i] == 0xff && b[i+1]>>3&7 == 4 {
			return true
		}
		if b[i] == 0xe9 && len(b)-i >= 5 &&
			f.inPLT(from+uint64(i)+5+uint64(int64(int32(binary.LittleEndian.Uint32(b[i+1:]))))) {
			return true
		}
	}
	return false
}

// trampoline reports whether a place is where handlers of signals return to: mov $15, %rax; syscall.
func (c code) trampoline(place string) bool {
	path, off, ok := placeOf(place)
	f := c.open(path)
	if !ok || f == nil {
		return false
	}
	at, ok := f.address(off)
	return ok && bytes.Contains(f.read(at-9, 19), []byte{0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05})
}

// end is where the function after the one at an address begins.
func (f *codeFile) end(addr uint64) uint64 {
	i := sort.Search(len(f.starts), func(i int) bool { return f.starts[i] > addr })
	if i == len(f.starts) {
		return addr
	}
	return f.starts[i]
}

// placeOf reads what peer.PlaceIn writes.
func placeOf(place string) (path string, off uint64, ok bool) {
	at, rest, _ := strings.Cut(place, " (")
	_, err := fmt.Sscanf(at, "%x", &off)
	return strings.TrimSuffix(rest, ")"), off, err == nil
}

func (c code) open(path string) *codeFile {
	if f, ok := c[path]; ok {
		return f
	}
	var f *codeFile
	if file, err := elf.Open(path); err == nil { // for the time of this process
		f = &codeFile{file: file}
		for _, s := range file.Sections {
			if strings.HasPrefix(s.Name, ".plt") {
				f.plt = append(f.plt, s)
			}
			if s.Name == ".eh_frame_hdr" {
				f.readStarts(s)
			}
		}
	}
	c[path] = f
	return f
}

// readStarts reads the table of .eh_frame_hdr, as linkers write it: pairs of offsets of four bytes from the
// section, after twelve bytes.
func (f *codeFile) readStarts(s *elf.Section) {
	b, err := s.Data()
	if err != nil || len(b) < 12 || b[3] != 0x3b {
		return
	}
	for b = b[12:]; len(b) >= 8; b = b[8:] {
		f.starts = append(f.starts, s.Addr+uint64(int64(int32(binary.LittleEndian.Uint32(b)))))
	}
}

// start is where the function at an address begins.
func (f *codeFile) start(addr uint64) uint64 {
	i := sort.Search(len(f.starts), func(i int) bool { return f.starts[i] > addr })
	if i == 0 {
		return 0
	}
	return f.starts[i-1]
}

// address is that of an offset in the file.
func (f *codeFile) address(off uint64) (uint64, bool) {
	for _, p := range f.file.Progs {
		if p.Type == elf.PT_LOAD && off >= p.Off && off < p.Off+p.Filesz {
			return off - p.Off + p.Vaddr, true
		}
	}
	return 0, false
}

// read reads code, nil if there is none.
func (f *codeFile) read(addr uint64, n int) []byte {
	for _, p := range f.file.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr+uint64(n) <= p.Vaddr+p.Filesz {
			b := make([]byte, n)
			if _, err := p.ReadAt(b, int64(addr-p.Vaddr)); err == nil {
				return b
			}
		}
	}
	return nil
}
