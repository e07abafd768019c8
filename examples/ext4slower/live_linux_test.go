package main

import (
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// A child's 23 opens, writes, reads and syncs are 23 rows each: in a guest with
// an ext4 file system on its disk (vmtest -mod ext4 -disk IMAGE).
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Guest, testenv.Kprobes, testenv.File(tooltest.Disk))
	os.Mkdir(mount, 0o700)
	if err := syscall.Mount(tooltest.Disk, mount, "ext4", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(mount, 0)
	type row struct {
		T     string
		Bytes int
		OffKB int `json:"off_kb"`
		PID   int
		Name  string  `json:"filename"`
		LatMS float64 `json:"lat_ms"`
	}
	child := tooltest.Start(t, "write")
	out := tooltest.Live(t, run, []string{"-json", "-p", strconv.Itoa(child.PID), "0"}, child.Work)
	n, bytes := map[string]int{}, map[string]int{}
	for _, r := range tooltest.Objects[row](t, out) {
		if r.Name == "known" && r.LatMS > 0 {
			n[r.T]++
			bytes[r.T] += r.Bytes
		}
	}
	for _, op := range operations {
		if n[op.letter] != 23 {
			t.Errorf("%d of 23 %s", n[op.letter], op.letter)
		}
	}
	if bytes["R"] != 23*50 || bytes["W"] != 23*100 {
		t.Errorf("%v bytes", bytes)
	}
}
