package symbol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/internal/testenv"
)

// Anybody may write /tmp/perf-PID.map for a process of somebody else's: it named
// that one's code.
func TestPerfMapOwner(t *testing.T) {
	testenv.Need(t, testenv.Root) // to give files away
	path := "/tmp/perf-" + strconv.Itoa(os.Getpid()) + ".map"
	mem, err := unix.Mmap(-1, 0, 0x1000, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	addr := uint64(uintptr(unsafe.Pointer(&mem[0])))
	if err := os.WriteFile(path, fmt.Appendf(nil, "%x 10 spoofed\n", addr), 0o644); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	for _, tt := range []struct {
		owner int
		want  string
	}{{1234, "(anonymous memory)"}, {os.Getuid(), "spoofed"}} {
		if err := os.Chown(path, tt.owner, -1); err != nil {
			t.Fatal(err)
		}
		p, err := OpenProcess(os.Getpid(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if got := frameNames(p.Resolve(nil, []uint64{addr})); got != tt.want {
			t.Errorf("a map of user %d's: got %s, want %s", tt.owner, got, tt.want)
		}
	}
}

// shortLines is a perf map of n bytes, whose lines are short.
func shortLines(n int) io.Reader {
	return io.LimitReader(&again{b: bytes.Repeat([]byte("1000 1 a\n"), 4096)}, int64(n))
}

// again reads as bytes again and again.
type again struct {
	b  []byte
	at int
}

func (r *again) Read(p []byte) (int, error) {
	n := copy(p, r.b[r.at:])
	r.at = (r.at + n) % len(r.b)
	return n, nil
}

// Names of generated code took several times what they are long, and reading them
// time by the square of the buffer.
func TestJITBombs(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	const room = 64 << 20
	dump := []byte{0x44, 0x54, 0x69, 0x4a, 1, 0, 0, 0, 40, 0, 0, 0}
	dump = append(dump, make([]byte, 28)...)
	o := binary.LittleEndian
	for i := range 400_000 {
		dump = o.AppendUint32(append(dump, jitCodeLoad, 0, 0, 0), 16+40+2)
		dump = append(dump, make([]byte, 8+16)...)
		dump = o.AppendUint64(dump, 0x1000+uint64(i))
		dump = o.AppendUint64(dump, 1)
		dump = append(o.AppendUint64(dump, uint64(i)), 'a', 0)
	}
	for _, tt := range []struct {
		name string
		read func() error
		want error
		most uint64
	}{
		{"perf map, live", func() error { _, err := parsePerfMap(shortLines(128<<20), room); return err }, elffile.ErrTooLarge, room},
		{"perf map", func() error { _, err := ParsePerfMap(shortLines(32 << 20)); return err }, nil, maxPerfMap},
		{"long names", func() error {
			_, err := parsePerfMap(&again{b: append([]byte("10 10 "), strings.Repeat("a", 60000)+"\n"...)}, room)
			return err
		}, elffile.ErrTooLarge, 2 * room},
		{"jitdump", func() error { _, err := parseJITDump(bytes.NewReader(dump), room); return err }, elffile.ErrTooLarge, room},
	} {
		start := time.Now()
		var err error
		mem := meter.Allocated(func() { err = tt.read() })
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if mem > tt.most {
			t.Errorf("%s took %d of memory, want at most %d", tt.name, mem, tt.most)
		}
		t.Logf("%s: %d of memory, %v", tt.name, mem, time.Since(start).Round(time.Millisecond))
	}
}

func BenchmarkPerfMapShortLines(b *testing.B) {
	b.SetBytes(8 << 20)
	for b.Loop() {
		if _, err := ParsePerfMap(shortLines(8 << 20)); err != nil {
			b.Fatal(err)
		}
	}
}
