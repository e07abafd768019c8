package stack

import (
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

// What is too large in a file that somebody may have written is said: what reading it
// takes is elfbuild's TestBombs.
func TestBombErrors(t *testing.T) {
	testenv.Need(t, testenv.Long)
	testenv.LimitMemory(t, 512<<20)
	for _, name := range []string{"compressed-debug_frame", "frame-descriptions", "Go-functions-of-many-steps", "nested-CIEs"} {
		c := CFICache{MaxBytes: 16 << 20, Chosen: true}
		got := readImage(t, &c, writeImage(t, elfbuild.BombNamed(name).Make()))
		if !errors.Is(got.err, elffile.ErrTooLarge) {
			t.Errorf("%s: got %v, want %v", name, got.err, elffile.ErrTooLarge)
		}
	}
	c := CFICache{MaxBytes: 16 << 20}
	if got := readImage(t, &c, writeImage(t, elfbuild.BombNamed("compressed-eh_frame").Make())); got.err == nil {
		t.Error("a section that is loaded and compressed was read")
	}
}

// TestStrippedGoIsCharged: a Go program without sections has the table all the same,
// and took nobody's time.
func TestStrippedGoIsCharged(t *testing.T) {
	table := elfbuild.GoTable{Functions: 1000, Steps: 4 << 20}
	for _, stripped := range []bool{false, true} {
		p := elfbuild.Program(table.Section())
		p.NoSections = stripped
		c := CFICache{MaxBytes: 32 << 10} // 1 MiB of work
		if got := readImage(t, &c, writeImage(t, p.Bytes())); !errors.Is(got.err, errTooMuchWork) {
			t.Errorf("without sections %v: %v, want %v", stripped, got.err, errTooMuchWork)
		}
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

// What compiling the rules of a stranger's file allocates is a small multiple of the file: each
// row was allocated two and a half times, and each of 20,000 CIEs that lie inside each other had
// a state of its own, also where it was not read (25 and 13 MB).
func TestCompilingAllocates(t *testing.T) {
	for name, c := range map[string]struct {
		frames []byte
		most   uint64
	}{
		"functions of one byte": {elfbuild.Frames(elfbuild.ProgramText, 200_000), 10 << 20},
		"nested CIEs":           {elfbuild.NestedCIEs(20_000, 2<<20), 10 << 20},
	} {
		image := elfbuild.Program(elfbuild.FrameSection(c.frames)).Bytes()
		bytes, _ := meter.Spent(func() {
			f, err := elffile.NewBytes(image)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := compileCFI(f, 32<<20); err != nil {
				t.Error(err)
			}
		})
		t.Logf("%s: %d bytes for a file of %d", name, bytes, len(image))
		if bytes > c.most && !meter.Raced() {
			t.Errorf("%s: %d bytes, more than %d", name, bytes, c.most)
		}
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
