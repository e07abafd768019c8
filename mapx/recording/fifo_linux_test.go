package recording

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/procfs"
)

// TestRecordingFIFO: a FIFO in a recording made replay wait for ever.
func TestRecordingFIFO(t *testing.T) {
	dir := t.TempDir()
	var no *procfs.NotRegularError
	if err := syscall.Mkfifo(dir+"/"+manifestName, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(os.DirFS(dir)); !errors.As(err, &no) {
		t.Errorf("manifest: %v", err)
	}
	text, err := os.ReadFile("testdata/recording-1/" + manifestName)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.Remove(dir+"/"+manifestName), os.WriteFile(dir+"/"+manifestName, text, 0o600),
		syscall.Mkfifo(dir+"/notes.file", 0o600), syscall.Mkfifo(dir+"/events.stream", 0o600))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Open("notes"); !errors.As(err, &no) {
		t.Errorf("file: %v", err)
	}
	if _, err := r.Stream("events", nil); !errors.As(err, &no) {
		t.Errorf("stream: %v", err)
	}
}

// TestRecordingLink: a link in a recording to a file of the kernel's made replay wait for ever:
// to /proc/kmsg, which has the kernel's messages until they are read.
func TestRecordingLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/proc/self/maps", dir+"/"+manifestName); err != nil {
		t.Fatal(err)
	}
	var served *procfs.ServedError
	for _, fsys := range []fs.FS{os.DirFS(dir), procfs.DirFS(dir)} {
		if _, err := Open(fsys); !errors.As(err, &served) {
			t.Errorf("%T: %v", fsys, err)
		}
	}
}
