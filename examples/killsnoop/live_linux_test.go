package main

import (
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

// nobody is a process that there is none of: above the kernel's largest number.
const nobody = 1 << 30

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"kill": func() {
		for range 23 {
			syscall.Kill(os.Getpid(), 0)
		}
		syscall.Kill(nobody, syscall.SIGTERM)
	}})
}

// A child's 23 kills of itself are 23 rows without an error, its kill of nobody
// one with ESRCH.
func TestLive(t *testing.T) {
	type row struct {
		PID, Sig, TPID, Result int
	}
	child := tooltest.Start(t, "kill")
	out := tooltest.Live(t, run, []string{"-json", "-p", strconv.Itoa(child.PID)}, child.Work)
	n := map[row]int{}
	for _, r := range tooltest.Objects[row](t, out) {
		n[r]++
	}
	if n[row{child.PID, 0, child.PID, 0}] != 23 || n[row{child.PID, 15, nobody, -3}] != 1 || len(n) != 2 {
		t.Errorf("not 23 kills of itself and one of nobody:\n%s", out)
	}
}
