package hostfs

import (
	"archive/tar"
	"bytes"
	"errors"
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
func recordTree(t *testing.T, f func(w *tar.Writer) error) *recording.Recording {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "rec")
	rec, err := recording.Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := rec.Create("host.tar")
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(out)
	if err := errors.Join(f(w), w.Close(), out.Close(), rec.Close()); err != nil {
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
	listing := map[string]string{"BORESCOPE.entries": strings.Repeat("-a\n", 300_000)}
	for _, tt := range []struct {
		name string
		f    func(w *tar.Writer) error
	}{
		{"files", func(w *tar.Writer) error {
			zeros := make([]byte, 8<<20)
			for i := range 16 {
				h := &tar.Header{Name: "f" + string(rune('a'+i)), Mode: 0o444, Size: int64(len(zeros))}
				if err := w.WriteHeader(h); err != nil {
					return err
				}
				if _, err := w.Write(zeros); err != nil {
					return err
				}
			}
			return nil
		}},
		{"listings", func(w *tar.Writer) error {
			for i := range 16 {
				h := &tar.Header{Name: "d" + string(rune('a'+i)) + "/", Typeflag: tar.TypeDir, Mode: 0o555, PAXRecords: listing}
				if err := w.WriteHeader(h); err != nil {
					return err
				}
			}
			return nil
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
	r := recordTree(t, func(w *tar.Writer) error {
		if err := w.WriteHeader(&tar.Header{Name: "zeros", Mode: 0o444, Size: int64(len(want))}); err != nil {
			return err
		}
		_, err := w.Write(want)
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
