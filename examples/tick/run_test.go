package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/usdt/provider"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{"-i", "1ms", "-n", "3"}, cli.NewOutput(&out))
	var unsupported *provider.UnsupportedError
	if errors.As(err, &unsupported) {
		testenv.Need(t, testenv.Missing("provider", err.Error()))
	}
	if err != nil || !regexp.MustCompile(`^pid \d+ fires tick:loop in /.*\n0 ticks were traced\n$`).MatchString(out.String()) {
		t.Errorf("%v: %q", err, out.String())
	}
	for _, args := range [][]string{{"x"}, {"-i", "0s"}, {"-n", "-1"}} {
		if run(t.Context(), args, cli.NewOutput(io.Discard)) == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

// lines collects what run prints and hands out the first line.
type lines struct {
	first chan string
	sent  bool
}

func (l *lines) Write(b []byte) (int, error) {
	if !l.sent {
		l.sent = true
		l.first <- string(b)
	}
	return len(b), nil
}

// TestBpftrace runs the book's example with the distribution's bpftrace.
func TestBpftrace(t *testing.T) {
	testenv.Need(t, testenv.Long, testenv.Root, testenv.Uprobes, testenv.Tracefs, testenv.Mounts, testenv.Tool("bpftrace"), testenv.Arch("amd64", "arm64"))
	if !testenv.OwnMounts(t) {
		return
	}
	testenv.MountTracefs(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := &lines{first: make(chan string, 1)}
	done := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	go func() { done <- run(running, []string{"-i", "100ms"}, cli.NewOutput(out)) }()
	first := strings.Fields(<-out.first)
	pid, path := first[1], first[len(first)-1]
	if _, err := strconv.Atoi(pid); err != nil {
		t.Fatal(first)
	}

	bpftrace := func(args ...string) (string, error) {
		cmd := testenv.CommandContext(ctx, t, "bpftrace", args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, &stderr)
		}
		return string(out), err
	}
	list, err := bpftrace("-l", "-p", pid, "usdt:*:tick:*")
	if err != nil || !strings.Contains(list, ":tick:loop") {
		t.Errorf("bpftrace -l: %v, %q", err, list)
	}
	const script = ` { printf("got: %d\n", arg0); if (arg0 == 2) { exit(); } }`
	const want = "got: 0\ngot: 1\ngot: 2\n"
	for _, probe := range []string{"usdt::tick:loop", "usdt:*:tick:loop", "usdt:" + path + ":tick:loop"} {
		got, err := bpftrace("-p", pid, "-e", probe+script)
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v, %q", probe, err, got)
		}
	}
	// The stub has a name of its own, and the stack goes on into this program.
	stack, err := bpftrace("-p", pid, "-e", "usdt::tick:loop { print(ustack(8)); exit(); }")
	if names := functions(stack); err != nil || len(names) < 3 || names[0] != "usdt_tick_loop" ||
		!slices.ContainsFunc(names, func(s string) bool { return strings.HasSuffix(s, "/tick.run") }) {
		t.Errorf("ustack: %v, %s%q", err, stack, names)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// functions are the names in a stack that bpftrace printed. A test's program has
// no symbols, but knows its own addresses.
func functions(stack string) []string {
	var names []string
	for line := range strings.Lines(stack) {
		frame, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "        ")
		if frame = strings.TrimSpace(frame); !ok || frame == "" {
			continue
		}
		name, _, _ := strings.Cut(frame, "+")
		if pc, err := strconv.ParseUint(frame, 0, 64); err == nil {
			if f := runtime.FuncForPC(uintptr(pc)); f != nil {
				name = f.Name()
			}
		}
		names = append(names, name)
	}
	return names
}

// TestTrace runs the book's example with our own trace.
func TestTrace(t *testing.T) {
	testenv.Need(t, testenv.Long, testenv.Root, testenv.Uprobes, testenv.Arch("amd64", "arm64"), testenv.Go, testenv.File("../trace/main.go"))
	trace := t.TempDir() + "/trace"
	if out, err := testenv.Command(t, "go", "build", "-o", trace, "../trace").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := &lines{first: make(chan string, 1)}
	done := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	// The first tick comes one to two intervals after the semaphore was raised, and
	// trace's program counts only when all is attached, which a quiet machine takes
	// more than 20 ms for now and then (the kernel waits for grace periods).
	go func() { done <- run(running, []string{"-i", "250ms"}, cli.NewOutput(out)) }()
	first := strings.Fields(<-out.first)
	got, err := testenv.CommandContext(ctx, t, trace, "-p", first[1], "-M", "3", "usdt:"+first[len(first)-1]+`:tick:loop "got: %d", arg0`).Output()
	if err != nil || !regexp.MustCompile(`(?s) got: 0\n.* got: 1\n.* got: 2\n`).Match(got) {
		t.Errorf("%v: %s", err, got)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestHelp: -h says what the program is for, and shows how.
func TestHelp(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{"-h"}, cli.NewOutput(&out))
	if !errors.Is(err, flag.ErrHelp) || !strings.HasPrefix(out.String(), "Usage: tick ") || strings.Count(out.String(), "\n  tick ") < 2 {
		t.Errorf("%v, %q", err, out.String())
	}
}
