package elffile_test

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/internal/testenv"
)

// write makes an ELF file of an image, with a hole at its end.
func write(t *testing.T, image []byte, hole int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, image, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(image))+hole); err != nil {
		t.Fatal(err)
	}
	return path
}

// Sections came to a thousand times of what the file takes up: 1 MB of compressed
// zeros to 1 GiB, and a hole in a file to as much as it is long.
func TestBombs(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	zeros := elfbuild.Compressed(nil, 128<<20)
	section := func(name string, flags elf.SectionFlag, data []byte) elfbuild.Section {
		return elfbuild.Section{Name: name, Type: elf.SHT_PROGBITS, Flags: flags, Addr: 0x10000, Data: data}
	}
	build := func(s ...elfbuild.Section) []byte { return elfbuild.Program(s...).Bytes() }
	var many []elfbuild.Section
	for range 64 {
		many = append(many, section(".debug_info", elf.SHF_COMPRESSED, elfbuild.Compressed(nil, 3<<20)))
	}
	for _, tt := range []struct {
		name  string
		image []byte
		hole  int64
		want  error // nil: any
	}{
		{"compressed", build(section(".debug_info", elf.SHF_COMPRESSED, zeros)), 0, elffile.ErrTooLarge},
		{"names", build(section(".debug_str", elf.SHF_COMPRESSED, zeros)), 0, elffile.ErrTooLarge},
		{"loaded and compressed", build(section(".eh_frame", elf.SHF_ALLOC|elf.SHF_COMPRESSED, elfbuild.Compressed(nil, 100))), 0, nil},
		{"many", build(many...), 0, elffile.ErrTooLarge},
		{"hole", elfbuild.Sparse(build(section(".symtab", 0, make([]byte, 24))), 2, 1<<30), 1 << 30, elffile.ErrTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := elffile.Open(write(t, tt.image, tt.hole))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if tt.hole > 0 && f.Stored() == f.Size() {
				return // on this file system it is no hole
			}
			var last error
			n := meter.Allocated(func() {
				for i := 2; i < len(f.Sections)-1; i++ {
					if _, err := f.Data(&f.Sections[i]); err != nil {
						last = err
					}
				}
			})
			if last == nil || tt.want != nil && !errors.Is(last, tt.want) {
				t.Errorf("got %v, want %v", last, tt.want)
			}
			if most := uint64(64 << 20); n > most {
				t.Errorf("a file of %d bytes took %d of memory, want at most %d", len(tt.image), n, most)
			}
			t.Logf("%d bytes of file: %d of memory: %v", len(tt.image), n, last)
		})
	}
}

// What is compressed to a fifth, as the debug sections of real programs are, and
// tables of zeros in small files stay readable.
func TestHonestCompression(t *testing.T) {
	noise := make([]byte, 1<<20)
	x := uint32(1)
	for i := range noise {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	for _, tt := range []struct {
		name string
		data []byte
		size int
	}{
		{"five times", elfbuild.Compressed(noise, 5<<20), 6 << 20},
		{"zeros", elfbuild.Compressed(nil, 3<<20), 3 << 20},
	} {
		s := elfbuild.Section{Name: ".debug_info", Type: elf.SHT_PROGBITS, Flags: elf.SHF_COMPRESSED, Data: tt.data}
		f, err := elffile.Open(write(t, elfbuild.Program(s).Bytes(), 0))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if b, err := f.Data(f.Section(".debug_info")); err != nil || len(b) != tt.size {
			t.Errorf("%s: %d bytes, %v; want %d", tt.name, len(b), err, tt.size)
		}
		f.Forget()
		f.Bound(int64(tt.size) - 1)
		if _, err := f.Data(f.Section(".debug_info")); !errors.Is(err, elffile.ErrTooLarge) {
			t.Errorf("%s: bounded: %v, want %v", tt.name, err, elffile.ErrTooLarge)
		}
	}
}

// TestNamesHaveRoom: texts compress to less than a hundredth in honest files. They were too large
// for what the file takes up, and with them all of its debug information. They take no room from
// other sections.
func TestNamesHaveRoom(t *testing.T) {
	section := func(name string, size int) elfbuild.Section {
		return elfbuild.Section{Name: name, Type: elf.SHT_PROGBITS, Flags: elf.SHF_COMPRESSED, Data: elfbuild.Compressed(nil, size)}
	}
	for bound, want := range map[int64]string{1 << 40: ".debug_str .debug_info ", 30 << 20: ".debug_str .debug_info ", 18 << 20: ".debug_str "} {
		f, err := elffile.Open(write(t, elfbuild.Program(section(".debug_str", 17<<20), section(".debug_info", 3<<20), section(".debug_line_str", 17<<20)).Bytes(), 0))
		if err != nil {
			t.Fatal(err)
		}
		f.Bound(bound)
		got := ""
		for _, name := range []string{".debug_str", ".debug_info", ".debug_line_str"} {
			if _, err := f.Data(f.Section(name)); err == nil {
				got += name + " "
			} else if !errors.Is(err, elffile.ErrTooLarge) {
				t.Error(err)
			}
		}
		if got != want {
			t.Errorf("within %d: %s, want %s", bound, got, want)
		}
		f.Close()
	}
}
