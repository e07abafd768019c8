package hostfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx/recording"
)

// recordTree makes a recording whose tree of host files is written by f.
func recordTree(t *testing.T, f func(w io.Writer) error) *recording.Recording {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "rec")
	rec, err := recording.Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := rec.Create("host.tree")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f(out), out.Close(), rec.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := recording.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// A tree of 156 kB came to 3 GB when it was read: what it may take is bounded by
// what it was recorded in.
func TestRecordingBombs(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	for _, tt := range []struct {
		name string
		f    func(w io.Writer) error
	}{
		{"files", func(w io.Writer) error {
			zeros := make([]byte, 8<<20)
			for i := range 16 {
				if _, err := fmt.Fprintf(w, "file \"f%d\" %d\n%s\n", i, len(zeros), zeros); err != nil {
					return err
				}
			}
			return nil
		}},
		{"listings", func(w io.Writer) error {
			const n = 300_000
			for i := range 16 {
				if _, err := fmt.Fprintf(w, "dir \"d%d\" %d\n%s", i, n, strings.Repeat("- \"a\"\n", n)); err != nil {
					return err
				}
			}
			return nil
		}},
		{"size", func(w io.Writer) error { _, err := fmt.Fprintf(w, "file \"f\" %d\n", int64(1)<<62); return err }},
		{"count", func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "dir \"d\" %d\n%s", int64(1)<<62, strings.Repeat("- \"a\"\n", 1<<20))
			return err
		}},
		{"line", func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "link \"d\" %q\n", strings.Repeat("x", 1<<20))
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := recordTree(t, tt.f)
			var err error
			n := meter.Allocated(func() { _, err = Open(r, "host") })
			if !errors.Is(err, recording.ErrCorrupt) {
				t.Errorf("got %v, want one that wraps %v", err, recording.ErrCorrupt)
			}
			const most = 128 << 20 // allocated: half of it at a time
			if n > most {
				t.Errorf("it took %d bytes of memory, want at most %d", n, most)
			}
		})
	}
}

// What compresses well is read all the same: a recording may be of one file of zeros.
func TestHonestTree(t *testing.T) {
	want := make([]byte, 24<<20)
	r := recordTree(t, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "file \"zeros\" %d\n%s\n", len(want), want)
		return err
	})
	fsys, err := Open(r, "host")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fs.ReadFile(fsys, "zeros"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
	}
}
