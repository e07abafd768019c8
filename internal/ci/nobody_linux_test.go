package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
)

// TestNobodyLeavesNothing: the go command, which starts others in the background when it finds
// no home directory that it knows, leaves nothing of the user nobody's.
func TestNobodyLeavesNothing(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Go, testenv.Tool("sh"))
	tmp := t.TempDir()
	for dir := tmp; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, self, nobodyFlag, "/bin/sh", "-c", "go env GOARCH")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != runtime.GOARCH+"\n" {
		t.Fatalf("%v: %s", err, out)
	}
	time.Sleep(200 * time.Millisecond) // what is in the background writes after about 20 ms
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
