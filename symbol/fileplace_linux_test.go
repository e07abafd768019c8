package symbol_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/symbol"
)

// TestFilePlace: places are those that the process's list of mappings has, with the build-id that
// readelf prints.
func TestFilePlace(t *testing.T) {
	testenv.Need(t, testenv.Tool("cat"), testenv.Tool("readelf"))
	cmd := testenv.Command(t, "cat")
	in := testenv.Echoing(t, cmd)
	defer func() { in.Close(); cmd.Wait() }()
	p, err := symbol.OpenProcess(cmd.Process.Pid, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for line := range strings.Lines(string(maps)) {
		var start, end, offset uint64
		var perm, dev, inode, path string
		n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %s %s", &start, &end, &perm, &offset, &dev, &inode, &path)
		if n < 7 || perm != "r-xp" || !strings.HasPrefix(path, "/") {
			continue
		}
		files++
		notes, err := testenv.Command(t, "readelf", "-nW", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		id, at, ok := p.FilePlace(start + 0x10)
		if !ok || at != offset+0x10 || !bytes.Contains(notes, []byte("Build ID: "+id+"\n")) {
			t.Errorf("%s: build-id %q, offset %#x, %t; it is mapped from offset %#x, and has\n%s", path, id, at, ok, offset, notes)
		}
	}
	if files == 0 {
		t.Errorf("no file is mapped:\n%s", maps)
	}
	if id, _, ok := p.FilePlace(16); ok {
		t.Errorf("address 16 is in %s", id)
	}
}
