package probe

import (
	"bytes"
	"debug/elf"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe/internal/probetest"
)

const (
	featureUprobeSession = feature.UprobeSession
	featureKprobeSession = feature.KprobeSession
)

func getppid() int32 { return unix.SYS_GETPPID }

func selfPID() int { return os.Getpid() }

// lineOf finds the line of the target's source that holds the text.
func lineOf(t testing.TB, text string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(probetest.TargetPath()), "target.c"))
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(b, []byte(text))
	if i < 0 {
		t.Fatalf("target.c has no %q", text)
	}
	return bytes.Count(b[:i], []byte("\n")) + 1
}

// symbolValue finds a symbol of the target with another reader than ours.
func symbolValue(t testing.TB, name string) uint64 {
	t.Helper()
	f, err := elf.Open(probetest.TargetPath())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range syms {
		if s.Name == name {
			return s.Value
		}
	}
	t.Fatalf("no symbol %s", name)
	return 0
}

// fault touches n fresh pages.
func fault(t testing.TB, n int) {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	if err := unix.Madvise(b, unix.MADV_NOHUGEPAGE); err != nil {
		t.Log(err)
	}
	for i := range n {
		b[i*4096] = 1
	}
}

// sendDatagrams sends n packets over loopback.
func sendDatagrams(t testing.TB, n int) {
	t.Helper()
	c, err := net.Dial("udp", "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range n {
		c.Write([]byte("x")) // refused packets are seen all the same
	}
}
