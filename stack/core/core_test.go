package core

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

// coreNote is an ELF note.
func coreNote(typ uint32, desc []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 5)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(desc)))
	b = binary.LittleEndian.AppendUint32(b, typ)
	b = append(b, "CORE\x00\x00\x00\x00"...)
	b = append(b, desc...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// prstatus is struct elf_prstatus of amd64.
func prstatus(tid uint32, pc, sp, fp uint64) []byte {
	b := make([]byte, 336)
	binary.LittleEndian.PutUint32(b[32:], tid)
	regs := b[112:]
	binary.LittleEndian.PutUint64(regs[4*8:], fp)
	binary.LittleEndian.PutUint64(regs[16*8:], pc)
	binary.LittleEndian.PutUint64(regs[19*8:], sp)
	return b
}

// ntFile is NT_FILE of one mapping.
func ntFile(start, end, page uint64, path string) []byte {
	var b []byte
	for _, v := range []uint64{1, 4096, start, end, page} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return append(append(b, path...), 0)
}

type coreSeg struct {
	addr, memsz uint64
	flags       elf.ProgFlag
	data        []byte
}

func buildCore(notes []byte, segs ...coreSeg) []byte {
	var data []byte
	c := &File{Machine: elf.EM_X86_64, notes: []noteSegment{{notes, 4}}}
	for _, s := range segs {
		c.segs = append(c.segs, coreSegment{addr: s.addr, memsz: s.memsz, off: uint64(len(data)), size: uint64(len(s.data)), flags: s.flags})
		data = append(data, s.data...)
	}
	c.r = bytes.NewReader(data)
	w := coreWriter{c: c, parts: c.segs}
	var out bytes.Buffer
	w.w = bufio.NewWriter(&out)
	if err := w.write(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// testCore is a process of two threads: a program of one function whose frame
// is 16 bytes, called by one that has no caller.
func testCore(t testing.TB) ([]byte, fstest.MapFS) {
	t.Helper()
	eh := new(stacktest.EhFrame).FDE(0x1000, 0x100, "", 0x07 /* DW_CFA_undefined */, stack.AMD64RIP).FDE(0x1100, 0x100, "", 0x0e /* DW_CFA_def_cfa_offset */, 16)
	prog := elfbuild.File{Machine: elf.EM_X86_64, Sections: []elfbuild.Section{
		{Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: 0x1000, Data: make([]byte, 0x200), Align: 0x1000},
		{Name: ".eh_frame", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: 0x3000, Data: eh.Bytes()},
	}}
	image := prog.Bytes()
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	text := f.Section(".text")
	bias := uint64(0x5555_0000_0000)
	start := bias + text.Addr&^0xfff
	page := (text.Offset - text.Addr + text.Addr&^0xfff) / 4096
	if text.Offset%4096 != text.Addr%4096 {
		t.Fatalf(".text at %#x of the file and %#x in memory", text.Offset, text.Addr)
	}
	notes := slices.Concat(
		coreNote(1, prstatus(71, bias+0x1105, 0x7000, 0)),
		coreNote(1, prstatus(72, bias+0x1005, 0x9000, 0)),
		coreNote(0x46494c45, ntFile(start, start+0x1000, page, "/bin/prog")),
	)
	return buildCore(notes,
		coreSeg{start, 0x1000, elf.PF_R | elf.PF_X, nil},
		coreSeg{0x6000, 0x2000, elf.PF_R | elf.PF_W, append(make([]byte, 0x1000), stacktest.Words(7, bias+0x1010)...)},
	), fstest.MapFS{"bin/prog": {Data: image}}
}

func TestCore(t *testing.T) {
	image, root := testCore(t)
	for round := range 2 { // the second time from what Write keeps
		c, err := New(bytes.NewReader(image), int64(len(image)))
		if err != nil {
			t.Fatal(err)
		}
		mods, err := c.Modules(root)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Threads) != 2 || c.Thread(72) == nil || c.Thread(73) != nil {
			t.Fatalf("threads %+v", c.Threads)
		}
		w := &stack.CFIWalker{Modules: mods}
		var frames [10]stack.Frame
		n, end := w.Walk(frames[:], &c.Thread(71).Regs, c)
		if got := pcs(frames[:n]); !slices.Equal(got, []uint64{0x5555_0000_1105, 0x5555_0000_1010}) || end != stack.StopBottom {
			t.Errorf("round %d: %#x %v", round, got, end)
		}
		if n, end := w.Walk(frames[:], &c.Thread(72).Regs, c); n != 1 || end != stack.StopBottom {
			t.Errorf("round %d: thread 72: %d frames, %v", round, n, end)
		}
		var b [8]byte
		if err := c.ReadMemory(b[:], 0x5555_0000_1000); !errors.Is(err, stack.ErrNoMemory) {
			t.Errorf("reading what was left out: %v", err)
		}
		var out bytes.Buffer
		if err := Write(&out, c, mods); err != nil {
			t.Fatal(err)
		}
		image = out.Bytes()
	}
}

func TestCoreModuleErrors(t *testing.T) {
	image, root := testCore(t)
	c, err := New(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	mods, err := c.Modules(fstest.MapFS{})
	if !errors.Is(err, os.ErrNotExist) || len(mods.All()) != 1 {
		t.Errorf("without the program: %v, %v", mods.All(), err)
	}
	root["bin/prog"].Data = []byte("#!/bin/sh\n")
	if mods, err = c.Modules(root); err == nil || len(mods.All()) != 1 {
		t.Errorf("with a script: %v, %v", mods.All(), err)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	exe, _ := os.Executable()
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file", text: "text", exe: "",
	} {
		if c, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", path, c, err)
		}
	}
	if err := (*File)(nil).Close(); err != nil {
		t.Error(err)
	}
}

func FuzzCore(f *testing.F) {
	image, root := testCore(f)
	f.Add(image)
	f.Add(image[:200])
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		mods, _ := c.Modules(root)
		w := &stack.CFIWalker{Modules: mods}
		var frames [100]stack.Frame
		for i := range c.Threads {
			if _, end := w.Walk(frames[:], &c.Threads[i].Regs, c); end == stack.StopUnknown {
				t.Fatal("no reason")
			}
		}
		var out bytes.Buffer
		if err := Write(&out, c, nil); err != nil {
			t.Fatal(err)
		}
		if d, err := New(bytes.NewReader(out.Bytes()), int64(out.Len())); err != nil || len(d.Threads) != len(c.Threads) {
			t.Fatalf("own core file refused: %v", err)
		}
	})
}

func pcs(frames []stack.Frame) (out []uint64) {
	for _, f := range frames {
		out = append(out, f.PC)
	}
	return out
}
