package usercode

import (
	"bytes"
	"debug/buildinfo"
	"encoding/binary"
	"os"
	"runtime"
	"testing"

	"github.com/borescope/borescope/internal/elffile"
)

// TestGoVersion: the version of this program, as Go 1.18 and later have it and as it was before, is what
// debug/buildinfo reads.
func TestGoVersion(t *testing.T) {
	file, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	check := func(what, want string) {
		t.Helper()
		f, err := elffile.NewBytes(file)
		if err != nil {
			t.Fatal(err)
		}
		info, err := buildinfo.Read(bytes.NewReader(file))
		if got := GoVersion(f); err != nil || got != want || info.GoVersion != want {
			t.Errorf("%s: got %q, and debug/buildinfo %q, %v; want %q", what, got, info.GoVersion, err, want)
		}
	}
	check("inline", runtime.Version())

	f, err := elffile.NewBytes(file)
	if err != nil {
		t.Fatal(err)
	}
	s := f.Section(".go.buildinfo")
	b := file[s.Offset:][:s.Size]
	// The string, and that of the modules, which is empty: behind the header.
	b[14], b[15] = 8, 0
	words := binary.LittleEndian
	words.PutUint64(b[16:], s.Addr+32)
	words.PutUint64(b[24:], s.Addr+48)
	words.PutUint64(b[32:], s.Addr+64)
	words.PutUint64(b[40:], uint64(copy(b[64:], "go1.17.13")))
	clear(b[48:64])
	check("by address", "go1.17.13")

	words.PutUint64(b[40:], 1<<40)
	if f, err = elffile.NewBytes(file); err != nil {
		t.Fatal(err)
	}
	if got := GoVersion(f); got != "" {
		t.Errorf("a text of a terabyte is %q", got)
	}
}
