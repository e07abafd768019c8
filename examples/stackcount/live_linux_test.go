package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

//go:noinline
func caller() { syscall.Getpriority(0, 0) }

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"calls": func() {
		for range 23 {
			caller()
		}
	}})
}

// A child's 23 calls are one user stack with its caller, counted 23 times.
func TestLive(t *testing.T) {
	child := tooltest.Start(t, "calls")
	args := []string{"-json", "-P", "-p", strconv.Itoa(child.PID), "t:syscalls:sys_enter_getpriority"}
	out := tooltest.Live(t, run, args, child.Work)
	got := tooltest.Objects[counted](t, out)
	in := func(name string) bool { return strings.HasSuffix(name, ".caller") }
	if len(got) != 1 || got[0].Count != 23 || got[0].PID != child.PID || !slices.ContainsFunc(got[0].User, in) {
		t.Errorf("%s", out)
	}
	// On 5.10 and 6.1 programs at these tracepoints are given the registers of the
	// process, and so have its stack only (perf_call_bpf_enter,
	// kernel/trace/trace_syscalls.c); on 6.12 not any more.
	old := regexp.MustCompile(`^(5\.|6\.[01]\D)`)
	if env := probe.NewEnv(nil); len(got) == 1 && len(got[0].Kernel) == 0 && !old.MatchString(env.Release()) {
		t.Errorf("no kernel stack on %s: %s", env.Release(), out)
	}
}
