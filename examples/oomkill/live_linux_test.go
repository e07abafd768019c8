package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// groupVar is where the child, and its own, are told of the cgroup.
const groupVar = "OOMKILL_TEST_CGROUP"

// The work is 23 processes in a memory cgroup, each of which wants more than its
// limit, in several threads.
func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){
		"hogs": func() {
			os.Setenv("TOOLTEST_WORK", "hog")
			for range 23 {
				// Its status is the signal's, or says that nobody was killed: the test counts.
				_ = testenv.Command(nil, "/proc/self/exe").Run()
			}
		},
		"hog": func() {
			if err := os.WriteFile(os.Getenv(groupVar)+"/cgroup.procs", []byte("0"), 0); err != nil {
				panic(err)
			}
			// Threads that need more while their process is killed are marked as well.
			var threads sync.WaitGroup
			for range 4 {
				threads.Go(func() {
					runtime.LockOSThread()
					b := make([]byte, 16<<20) // end it if the cgroup does not
					for i := 0; i < len(b); i += 4096 {
						b[i] = 1
					}
				})
			}
			threads.Wait()
		},
	})
}

// memoryGroup makes a memory cgroup whose processes have 8 MiB and no swap. It
// returns the file with its count of kills.
func memoryGroup(t *testing.T) (dir, kills string) {
	const parent = "/sys/fs/cgroup"
	if err := os.WriteFile(parent+"/cgroup.subtree_control", []byte("+memory"), 0); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(parent, "oomkill-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	for file, value := range map[string]string{"memory.max": "8388608", "memory.swap.max": "0"} {
		err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0)
		if err != nil && !(errors.Is(err, os.ErrNotExist) && strings.Contains(file, "swap")) {
			t.Fatal(err)
		}
	}
	return dir, filepath.Join(dir, "memory.events")
}

// 23 processes that exceed the limit of their cgroup are 23 lines, and as many
// kills by the cgroup's own count. Nobody's laptop is the place for these.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Guest)
	dir, kills := memoryGroup(t)
	t.Setenv(groupVar, dir)
	child := tooltest.Start(t, "hogs")
	out := tooltest.Live(t, run, []string{"-json"}, child.Work)

	n := 0
	for _, k := range tooltest.Objects[killed](t, out) {
		if k.Comm != "exe" {
			continue // of somebody else
		}
		n++
		if k.PID != k.Victim || k.VictimComm != "" && (k.VictimComm != "exe" || k.Resident == 0 || k.TotalVM < k.Resident) {
			t.Errorf("%+v", k)
		}
	}
	text, err := os.ReadFile(kills)
	if err != nil {
		t.Fatal(err)
	}
	_, count, _ := strings.Cut("\n"+string(text), "\noom_kill ")
	count, _, _ = strings.Cut(count, "\n")
	if n != 23 || count != strconv.Itoa(n) {
		t.Errorf("%d kills of 23; the cgroup counts %s:\n%s", n, count, out)
	}
}
