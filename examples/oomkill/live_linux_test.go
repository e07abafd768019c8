package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// groupVar is where the child is told of the cgroup.
const groupVar = "OOMKILL_TEST_CGROUP"

// The work is 23 processes in a memory cgroup, each of which wants more than its
// limit. ulimit ends them if the cgroup does not.
func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"hog": func() {
		for range 23 {
			// Its status is the signal's, or says that nobody was killed: the test counts.
			_ = testenv.Command(nil, "/bin/sh", "-c", `echo $$ >"$`+groupVar+`/cgroup.procs" && ulimit -v 262144 && exec tail /dev/zero`).Run()
		}
	}})
}

// memoryGroup makes a memory cgroup, of version 1 or 2, whose processes have 8
// MiB and no swap. It returns the file with its count of kills.
func memoryGroup(t *testing.T) (dir, kills string, err error) {
	if testenv.InGuest() { // where nobody else has seen to it
		if err := os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+memory"), 0); err != nil {
			return "", "", err
		}
	}
	limits := map[string]string{"memory.max": "8388608", "memory.swap.max": "0"}
	parent, kills := "/sys/fs/cgroup", "memory.events"
	if _, err := os.Stat(parent + "/memory/memory.limit_in_bytes"); err == nil {
		parent, kills = parent+"/memory", "memory.oom_control"
		limits = map[string]string{"memory.limit_in_bytes": "8388608", "memory.swappiness": "0"}
	} else if controllers, err := os.ReadFile(parent + "/cgroup.subtree_control"); err != nil {
		return "", "", err
	} else if !strings.Contains(string(controllers), "memory") {
		return "", "", errors.New("cgroup.subtree_control does not have it")
	}
	if dir, err = os.MkdirTemp(parent, "oomkill-test-"); err != nil {
		return "", "", err
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	for file, value := range limits {
		err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0)
		if err != nil && !(errors.Is(err, os.ErrNotExist) && strings.Contains(file, "swap")) {
			return "", "", err
		}
	}
	return dir, filepath.Join(dir, kills), nil
}

// 23 processes that exceed the limit of their cgroup are 23 lines, and as many
// kills by the cgroup's own count.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("sh"), testenv.Tool("tail"))
	dir, kills, err := memoryGroup(t)
	testenv.Need(t, testenv.Got("memory cgroup", err))
	t.Setenv(groupVar, dir)
	child := tooltest.Start(t, "hog")
	out := tooltest.Live(t, run, []string{"-json"}, child.Work)

	n := 0
	for _, k := range tooltest.Objects[killed](t, out) {
		if k.Comm != "tail" {
			continue // of somebody else
		}
		n++
		if k.PID != k.Victim || k.VictimComm != "" && (k.VictimComm != "tail" || k.Resident == 0 || k.TotalVM < k.Resident) {
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
