package main

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// The work is done by system calls themselves: package os makes more of them.
func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"files": func() {
		path := filepath.Join(os.TempDir(), "vfsstat-"+strconv.Itoa(os.Getpid()))
		for range 23 {
			fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_RDWR, 0o600)
			if err != nil {
				return
			}
			buf := []byte("x")
			for range 3 {
				syscall.Write(fd, buf)
			}
			for range 2 {
				syscall.Read(fd, buf)
			}
			syscall.Fsync(fd)
			syscall.Close(fd)
		}
		syscall.Unlink(path)
	}})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "vfsstat", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/calls") }

// A child's 23 opens with 3 writes, 2 reads and one fsync each are counted
// exactly, but for what says that the work begins and has been done: one read
// and one write.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Kprobes)
	child := tooltest.Start(t, "files")
	out := tooltest.Live(t, run, []string{"-json", "-p", strconv.Itoa(child.PID)}, child.Work)
	sum := map[string]float64{}
	for _, r := range tooltest.Objects[map[string]any](t, out) {
		for _, name := range []string{"read_s", "write_s", "fsync_s", "open_s"} {
			rate, _ := r[name].(float64)
			secs, _ := r["seconds"].(float64)
			sum[name] += rate * secs
		}
	}
	for name, want := range map[string]float64{"read_s": 46, "write_s": 69, "fsync_s": 23, "open_s": 23} {
		more := 0.0
		if name == "read_s" || name == "write_s" {
			more = 2 // and the next wait for the end, if it comes to that in time
		}
		if n := math.Round(sum[name]); n < want || n > want+more {
			t.Errorf("%s: %v calls, want %v:\n%s", name, n, want, out)
		}
	}
}
