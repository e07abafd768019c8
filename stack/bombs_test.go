package stack

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

func writeImage(tb testing.TB, image []byte) *os.File {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "file")
	if err := os.WriteFile(path, image, 0o755); err != nil {
		tb.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	return f
}

// readImage has a cache read a file that this process maps.
func readImage(tb testing.TB, c *CFICache, f *os.File) FileCFI {
	tb.Helper()
	st, err := f.Stat()
	if err != nil {
		tb.Fatal(err)
	}
	return c.read(os.Getpid(), f, st)
}

// Files that anybody may run took root's tools gigabytes and minutes: what a
// process's file may take is bounded before it is read.
func TestBombs(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	frames := func(data []byte, flags elf.SectionFlag) []byte {
		s := elfbuild.FrameSection(data)
		s.Flags |= flags
		return elfbuild.Program(s).Bytes()
	}
	head := elfbuild.Frames(elfbuild.ProgramText, 1)
	head = head[:len(head)-4]
	debugFrame := elfbuild.Section{
		Name: ".debug_frame", Type: elf.SHT_PROGBITS, Flags: elf.SHF_COMPRESSED,
		Data: elfbuild.Compressed(head, 256<<20, head[len(head)-24:]...),
	}
	for _, tt := range []struct {
		name  string
		image []byte
		want  error // nil: any
		fine  bool  // or none
	}{
		{"compressed .eh_frame", frames(elfbuild.Compressed(head, 96<<20, head[len(head)-24:]...), elf.SHF_COMPRESSED), nil, false},
		{"compressed .debug_frame", elfbuild.Program(debugFrame).Bytes(), elffile.ErrTooLarge, false},
		{"many descriptions", frames(elfbuild.Frames(elfbuild.ProgramText, 4<<20), 0), elffile.ErrTooLarge, false},
		{"Go functions", elfbuild.Program(elfbuild.GoTable{Functions: 1000, Steps: 4 << 20}.Section()).Bytes(), elffile.ErrTooLarge, false},
		{"nested CIEs", frames(elfbuild.NestedCIEs(40<<10, 4<<20), 0), nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := writeImage(t, tt.image)
			c := CFICache{MaxBytes: 16 << 20}
			var got FileCFI
			n, cpu := meter.Bounded(t, len(tt.image), func() { got = readImage(t, &c, file) })
			if !errors.Is(got.err, tt.want) && tt.want != nil || got.err == nil && !tt.fine {
				t.Errorf("got %v, want an error: %v", got.err, tt.want)
			}
			t.Logf("%d bytes of file: %d of memory, %v: %v", len(tt.image), n, cpu, got.err)
		})
	}
}

// A section of 1 MB whose functions have one long list of rows in common took more
// than nine minutes.
func TestSFrameBomb(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	_, err := parseSFrame(elfbuild.SharedSFrame(25<<10, 512<<10), elfbuild.ProgramFrame, 0, 1<<30)
	if !errors.Is(err, elffile.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, elffile.ErrTooLarge)
	}
}

// However many files there are, together they get a bounded share of the work.
func TestCFIWorkIsBounded(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	file := writeImage(t, elfbuild.Program(elfbuild.FrameSection(elfbuild.Frames(elfbuild.ProgramText, 40<<10))).Bytes())
	// 10 MiB a second are allowed besides, so that files of that size must be refused.
	c := CFICache{MaxBytes: 64 << 10}
	refused := false
	for range 1000 {
		got := readImage(t, &c, file)
		if refused = errors.Is(got.err, errTooMuchWork); refused {
			break
		}
		if got.err != nil && !errors.Is(got.err, elffile.ErrTooLarge) {
			t.Fatal(got.err)
		}
	}
	if !refused {
		t.Error("1,000 files were read at once")
	}
}

// A section's size of more than 63 bits gave others the time to be read in.
func TestCFIWorkIsTaken(t *testing.T) {
	s := elfbuild.FrameSection(elfbuild.Frames(elfbuild.ProgramText, 100))
	image := elfbuild.Sparse(elfbuild.Program(s).Bytes(), 2, 1<<63)
	f, err := elffile.NewBytes(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sections := cfiSections(f)
	if len(sections) != 1 {
		t.Fatalf("%d sections", len(sections))
	}
	if got := sections[0].size(f); got != f.Size() {
		t.Errorf("a section of 2^63 bytes counts as %d of the file's %d", got, f.Size())
	}
}
