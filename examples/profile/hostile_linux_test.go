package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/internal/testenv"
)

// startEach runs ten programs of that name, each image in turn from a file of its own,
// nobody's, with a hole behind it, until the test ends.
func startEach(t testing.TB, name string, images [][]byte, holes []int64) {
	t.Helper()
	for i := range 10 {
		k := i % len(images)
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, images[k], 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 65534, -1); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(len(images[k]))+holes[k]); err != nil {
			t.Fatal(err)
		}
		cmd := testenv.Command(t, path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		// The tool shares their CPU.
		if err := unix.Setpriority(unix.PRIO_PROCESS, cmd.Process.Pid, 19); err != nil {
			t.Fatal(err)
		}
	}
}

// profileOf profiles the processes of a name for two seconds and returns how much
// memory that took at most, how much of a CPU, and what came out.
func profileOf(t testing.TB, name string) (kB int, cpu time.Duration, out string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := self(t, "-d", "2s", "-f", "-c", name)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("%v: %s", err, stderr.String())
			}
			return kB, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), stdout.String()
		case <-time.After(5 * time.Millisecond):
		}
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
			fmt.Sscan(rest, &kB)
		}
	}
}

// A profile of the whole machine took 1.4 GB and ten seconds more for one process of
// anybody's with such a file, and three times the CPU time for twenty within the bounds
// of a file. What else runs on the machine takes memory too, so the tool is told the name
// of these, and of honest ones to compare. How much time it takes is a benchmark
// (internal/bench/neighbours).
func TestHostileNeighbours(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Arch("amd64"), testenv.Guest, testenv.Long)
	testenv.LimitMemory(t, 512<<20)
	const mostMemory = 40 << 10 // kB
	images, holes := elfbuild.Hostile()
	memory := map[string]int{}
	for _, c := range []struct {
		name   string
		images [][]byte
		holes  []int64
	}{{"honest", [][]byte{elfbuild.Program().Bytes()}, []int64{0}}, {"hostile", images, holes}} {
		t.Run(c.name, func(t *testing.T) {
			startEach(t, c.name, c.images, c.holes)
			kB, cpu, out := profileOf(t, c.name)
			t.Logf("ten of them: %d kB, %v of a CPU", kB, cpu)
			if !strings.Contains(out, c.name) {
				t.Errorf("none was seen:\n%s", out)
			}
			memory[c.name] = kB
		})
	}
	if meter.Raced() {
		return
	}
	if more := memory["hostile"] - memory["honest"]; more > mostMemory {
		t.Errorf("%d kB for the hostile processes, want up to %d", more, mostMemory)
	}
}
