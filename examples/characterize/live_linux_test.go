package main

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

//go:noinline
func often(who int) { syscall.Getpriority(0, who) }

//go:noinline
func seldom(who int) { syscall.Getpriority(0, who) }

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"calls": func() {
		for range 20 {
			often(0)
		}
		for range 3 {
			seldom(1)
		}
	}})
}

// found is any of the objects that -json prints.
type found struct {
	Count  uint64
	PID    int
	Comm   *string
	Value  *int
	Time   *string
	Kernel []string
	User   []string
}

// A child's 23 calls, 20 of them from one function and with one argument and 3
// from and with another, are found in all four answers.
func TestLive(t *testing.T) {
	child := tooltest.Start(t, "calls")
	args := []string{"-json", "-p", strconv.Itoa(child.PID), "t:syscalls:sys_enter_getpriority args.who"}
	out := tooltest.Live(t, run, args, child.Work)
	var who, when, often, seldom uint64
	values := map[int]uint64{}
	for _, f := range tooltest.Objects[found](t, out) {
		from := func(name string) bool {
			return slices.ContainsFunc(f.User, func(frame string) bool { return strings.HasSuffix(frame, "."+name) })
		}
		switch {
		case f.Value != nil:
			values[*f.Value] += f.Count
		case f.Time != nil:
			when += f.Count
		case f.Comm != nil && f.PID == child.PID:
			who += f.Count
		case from("often"):
			often += f.Count
		case from("seldom"):
			seldom += f.Count
		}
	}
	if who != 23 || when != 23 || often != 20 || seldom != 3 || values[0] != 20 || values[1] != 3 || len(values) != 2 {
		t.Errorf("who %d, when %d, often %d, seldom %d, values %v:\n%s", who, when, often, seldom, values, out)
	}
}

// A Ctrl-C before anything is attached still gets the four headings.
func TestInterrupted(t *testing.T) {
	out := tooltest.Interrupted(t, run, "t:syscalls:sys_enter_getpriority args.who")
	for _, heading := range []string{"WHO:", "WHY:", "WHAT:", "HOW "} {
		if !strings.Contains(out, heading) {
			t.Errorf("no %q:\n%s", heading, out)
		}
	}
}
