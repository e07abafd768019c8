package usdt

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/procfs"
)

// TestDescriptorFIFO: a FIFO among a process's open files, called like the file
// in memory that is looked for, made tplist -p wait for ever.
func TestDescriptorFIFO(t *testing.T) {
	name := t.TempDir() + "/memfd:x"
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) // nobody writes
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if f := openDescriptor(os.Getpid(), &procfs.Mapping{Path: name}); f != nil {
		f.Close()
		t.Error("the FIFO was taken for a mapped file")
	}
}
