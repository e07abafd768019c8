package elffile

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// self is this test's own file, or another ELF file of the machine.
func self(tb testing.TB) string {
	testenv.Need(tb, testenv.OS("linux"))
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return exe
}

// TestAgainstDebugELF compares headers and sections with those that debug/elf
// reads.
func TestAgainstDebugELF(t *testing.T) {
	files := []string{self(t)}
	for _, p := range []string{"/bin/bash", "/lib/*/libc.so.6", "/usr/lib/debug/.build-id/0*/*.debug", "/usr/bin/node"} {
		m, _ := filepath.Glob(p)
		files = append(files, m[:min(len(m), 2)]...)
	}
	for _, path := range files {
		ref, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Sections) != len(ref.Sections) || len(f.Progs) != len(ref.Progs) || f.Entry != ref.Entry || f.Machine != ref.Machine {
			t.Fatalf("%s: %d sections, %d segments", path, len(f.Sections), len(f.Progs))
		}
		for i := range f.Sections {
			a, b := &f.Sections[i], ref.Sections[i]
			if a.Name != b.Name || a.Addr != b.Addr || a.Offset != b.Offset || a.Size != b.FileSize && b.Flags&elf.SHF_COMPRESSED == 0 {
				t.Errorf("%s: section %d is %+v, want %+v", path, i, a, b.SectionHeader)
			}
			if a.Type == elf.SHT_NOBITS || a.Size > 16<<20 {
				continue
			}
			got, err := f.Data(a)
			want, refErr := b.Data()
			if err != nil || refErr != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: contents of %s differ: %v, %v", path, a.Name, err, refErr)
			}
		}
		f.Close()
		f.Close()
		ref.Close()
	}
}

// TestCompressed reads sections that objcopy compressed in each way.
func TestCompressed(t *testing.T) {
	testenv.Need(t, testenv.Tool("objcopy"))
	exe := self(t)
	plain, err := Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	text, err := plain.Data(plain.Section(".rodata"))
	if err != nil {
		t.Fatal(err)
	}
	text = slices.Clone(text[:min(len(text), 300000)])
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/data", text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"none", "zlib-gnu", "zlib-gabi", "zstd"} {
		t.Run(kind, func(t *testing.T) {
			out := filepath.Join(dir, kind)
			msg, err := testenv.Command(t, "objcopy", "--add-section", ".debug_test="+dir+"/data",
				"--set-section-flags", ".debug_test=debug", exe, out+".tmp").CombinedOutput()
			if err == nil {
				msg, err = testenv.Command(t, "objcopy", "--compress-debug-sections="+kind, out+".tmp", out).CombinedOutput()
			}
			if err != nil {
				testenv.Need(t, testenv.Got("objcopy", fmt.Errorf("%w: %s", err, msg), "zstd support", "unrecognized"))
			}
			f, err := Open(out)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			s := f.Section(".debug_test")
			if s == nil {
				s = f.Section(".zdebug_test")
			}
			b, err := f.Data(s)
			if err != nil || !bytes.Equal(b, text) {
				t.Errorf("%d of %d bytes: %v", len(b), len(text), err)
			}
			if kind != "none" && f.Heap() < int64(len(text)) {
				t.Errorf("the copy is not counted: %d", f.Heap())
			}
			f.Forget()
			if f.Heap() != 0 {
				t.Error("Forget kept it")
			}
		})
	}
}

func TestBuildID(t *testing.T) {
	testenv.Need(t, testenv.Tool("readelf"))
	self(t)
	for _, path := range []string{"/bin/bash", "/usr/bin/env", "/usr/bin/python3"} {
		out, err := testenv.Command(t, "readelf", "-n", path).Output()
		if err != nil {
			continue
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if id := f.BuildID(); id == "" || !strings.Contains(string(out), "Build ID: "+id+"\n") {
			t.Errorf("%s: got %q, readelf says %s", path, id, out)
		}
		f.Close()
	}
}

// TestSegments compares both ways of address conversion for every segment.
func TestSegments(t *testing.T) {
	f, err := Open(self(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type != elf.PT_LOAD || p.Filesz == 0 {
			continue
		}
		n++
		for _, d := range []uint64{0, p.Filesz / 2, p.Filesz - 1} {
			off, ok := f.Offset(p.Vaddr + d)
			v, back := f.VAddr(off, p.Flags&elf.PF_X != 0)
			if !ok || off != p.Offset+d || !back || v != p.Vaddr+d {
				t.Errorf("segment %d+%#x: offset %#x, back %#x", i, d, off, v)
			}
		}
		const slide = 0x555555000000
		start := (p.Vaddr &^ 0xfff) + slide
		bias, ok := f.Bias(start, p.Offset&^0xfff, p.Filesz+(p.Offset&0xfff), p.Flags&elf.PF_X != 0)
		if !ok || bias != slide {
			t.Errorf("segment %d: bias %#x", i, bias)
		}
	}
	if n < 2 {
		t.Errorf("%d segments", n)
	}
}

// TestBiasInOnePage has two executable segments in one page of the file, which fit
// both mappings of it.
func TestBiasInOnePage(t *testing.T) {
	progs := []Prog{
		{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_X, Offset: 0, Vaddr: 0, Filesz: 0x850},
		{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_X, Offset: 0x850, Vaddr: 0x1850, Filesz: 0x2c},
	}
	const slide = 0x555555000000
	before := uint64(0)
	for i := range uint64(2) {
		if before, _ = Bias(progs, slide+i*0x1000, 0, 0x1000, true, before); before != slide {
			t.Errorf("mapping %d: got %#x", i, before)
		}
	}
}

// TestBiasOfTwoExecutables finds the biases of mappings that share a page of the
// file, as gold lays out -z text-unlikely-segment: the first segment that overlaps
// was taken.
func TestBiasOfTwoExecutables(t *testing.T) {
	progs := []Prog{
		{Type: elf.PT_LOAD, Flags: elf.PF_R, Offset: 0, Vaddr: 0, Filesz: 0x400},
		{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_X, Offset: 0x400, Vaddr: 0x1400, Filesz: 0x2300},
		{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_X, Offset: 0x2700, Vaddr: 0x5700, Filesz: 0x3000},
		{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_W, Offset: 0x5700, Vaddr: 0x9700, Filesz: 0x800},
	}
	const slide = 0x555555000000
	for _, c := range []struct {
		vaddr, offset, length uint64
		exec                  bool
	}{
		{0, 0, 0x1000, false},
		{0x1000, 0, 0x3000, true},
		{0x5000, 0x2000, 0x4000, true},
		{0x9000, 0x5000, 0x1000, false},
		{0x2000, 0x1000, 0x1000, true}, // a part, with other permissions since
		{0x7000, 0x4000, 0x2000, true},
	} {
		if bias, ok := Bias(progs, c.vaddr+slide, c.offset, c.length, c.exec, 0); !ok || bias != slide {
			t.Errorf("%+v: got %#x %v", c, bias, ok)
		}
	}
}

// TestBiasOfLargePages finds the biases of mappings on machines with larger pages:
// by those of 4 KiB the first segment fitted the second one's mapping better.
func TestBiasOfLargePages(t *testing.T) {
	const slide = 0x555555000000
	for _, c := range []struct {
		page, align, vaddr, offset, length uint64
	}{
		{4 << 10, 64 << 10, 0, 0, 0xa000},
		{4 << 10, 64 << 10, 0x19000, 0x9000, 0x9000},
		{16 << 10, 64 << 10, 0, 0, 0xc000},
		{16 << 10, 64 << 10, 0x18000, 0x8000, 0xc000},
		{16 << 10, 64 << 10, 0x18000, 0x8000, 0x8000}, // a part
		{64 << 10, 64 << 10, 0, 0, 0x10000},
		{64 << 10, 64 << 10, 0x10000, 0, 0x20000},
		{4 << 10, 2 << 20, 0x10000, 0, 0x20000}, // not possible: the first
	} {
		for _, flags := range []elf.ProgFlag{elf.PF_R | elf.PF_X, elf.PF_R} {
			progs := []Prog{
				{Type: elf.PT_LOAD, Flags: flags, Offset: 0, Vaddr: 0, Filesz: 0x9c00, Align: c.align},
				{Type: elf.PT_LOAD, Flags: flags, Offset: 0x9c00, Vaddr: 0x19c00, Filesz: 0x8000, Align: c.align},
			}
			want := uint64(slide)
			if c.align == 2<<20 {
				want += c.vaddr
			}
			if bias, ok := Bias(progs, c.vaddr+slide, c.offset, c.length, flags&elf.PF_X != 0, 0); !ok || bias != want {
				t.Errorf("%+v: got %#x %v", c, bias, ok)
			}
		}
	}
}

func TestCatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	b, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	read := func() (sum int, err error) {
		defer Catch(debug.SetPanicOnFault(true), &err)
		b, err := f.Bytes(0, uint64(f.Size()))
		for _, c := range b {
			sum += int(c)
		}
		return sum, err
	}
	if _, err := read(); !errors.Is(err, ErrTruncated) {
		t.Errorf("got %v", err)
	}
	if debug.SetPanicOnFault(false) {
		t.Error("faults stay caught")
	}
	// What is no fault goes on.
	defer func() {
		if recover() == nil {
			t.Error("a nil dereference was swallowed")
		}
	}()
	func() (err error) {
		defer Catch(debug.SetPanicOnFault(true), &err)
		var f *File
		return errors.New(f.Machine.String())
	}()
}

func FuzzFile(f *testing.F) {
	for _, class := range []byte{1, 2} {
		b := make([]byte, 256)
		copy(b, "\x7fELF")
		b[4], b[5], b[6] = class, 1, 1
		b[52], b[54], b[56], b[58], b[60] = 64, 56, 1, 64, 2
		b[32], b[40] = 64, 120
		f.Add(b)
	}
	z, _ := os.ReadFile("/bin/true")
	f.Add(z)
	f.Fuzz(func(t *testing.T, b []byte) {
		ef, err := NewBytes(b)
		if err != nil {
			return
		}
		defer ef.Close()
		ef.BuildID()
		total := 0
		for i := range ef.Sections {
			if i > 64 {
				break
			}
			d, err := ef.Data(&ef.Sections[i])
			if err == nil && ef.Sections[i].Flags&elf.SHF_COMPRESSED == 0 && len(d) > len(b) {
				t.Fatalf("section %d has %d of the file's %d bytes", i, len(d), len(b))
			}
			total += len(ef.Sections[i].Name)
		}
		if total > len(b) {
			t.Fatalf("names take %d bytes", total)
		}
	})
}
