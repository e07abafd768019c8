package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/testenv"
)

// servedFunction is the beginning of the name of the function that the program served runs.
const servedFunction = "aaaa"

// served mounts a file system with a program, which belongs to user. In the process that serves
// it, it returns nil.
func served(t *testing.T, user int) *testenv.FUSE {
	t.Helper()
	return testenv.MountFUSE(t, user, func(dev int) {
		symbols := elfbuild.SymbolTable{N: 1, Size: 4096, Names: len(servedFunction)}
		testenv.ServeFUSE(dev, elfbuild.Program(symbols.Sections()...).Bytes())
	})
}

// TestServedProgram: a program that runs from a file that a process serves, which does not
// answer, is sampled; the run ends in time, and says that the program has no names, and why. It
// waited for the server. One that answers is read, as a home on NFS is.
func TestServedProgram(t *testing.T) {
	testenv.Need(t, testenv.Guest, testenv.Long, testenv.Root, testenv.Perf, testenv.Mounts, testenv.Arch("amd64"), testenv.File("/dev/fuse"))
	if !testenv.OwnMounts(t) {
		return
	}
	for _, c := range []struct {
		name    string
		user    int // who serves
		answers bool
		args    []string
		want    string // in the line that says what is not named
	}{
		{name: "stranger", user: 1000, want: "-unsafe"},
		{name: "stranger, allowed", user: 1000, args: []string{"-unsafe"}, want: "does not answer"},
		{name: "root", want: "does not answer"},
		{name: "stranger who answers, allowed", user: 1000, answers: true, args: []string{"-unsafe"}},
		{name: "root who answers", answers: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			fuse := served(t, c.user)
			if fuse == nil {
				return
			}
			program := testenv.Command(t, fuse.Program)
			if err := program.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { program.Process.Kill(); program.Wait() })
			if !c.answers {
				testenv.Stop(t, fuse.Server)
			}
			var out bytes.Buffer
			cmd := self(t, append(c.args, "-d", "1s", "-p", strconv.Itoa(program.Process.Pid))...)
			cmd.Stdout, cmd.Stderr = &out, &out
			start := time.Now()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- cmd.Wait() }()
			var err error
			select {
			case err = <-done:
			case <-time.After(time.Minute):
				t.Fatal("it waits for the server")
			}
			line := ""
			for l := range strings.Lines(out.String()) {
				if strings.HasPrefix(l, "Not named: ") {
					line = l
				}
			}
			t.Logf("after %v, %v: %s", time.Since(start), err, line)
			if c.want == "" {
				if err != nil || line != "" || !strings.Contains(out.String(), servedFunction) {
					t.Errorf("want %q in\n%s", servedFunction, out.String())
				}
				return
			}
			if err != nil || !strings.Contains(line, c.want) || !strings.Contains(line, fuse.Program) {
				t.Errorf("want %q and the program in the last line of\n%s", c.want, out.String())
			}
		})
	}
}

// TestSecondSignal: a tool that waits for a file that its user named, and that nobody serves,
// goes on waiting after the first Ctrl-C, which it can not hear, and ends at the second: a
// handler of its own would not run there.
func TestSecondSignal(t *testing.T) {
	testenv.Need(t, testenv.Guest, testenv.Long, testenv.Root, testenv.Mounts, testenv.File("/dev/fuse"))
	if !testenv.OwnMounts(t) {
		return
	}
	for _, second := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		fuse := served(t, 0)
		if fuse == nil {
			return
		}
		if _, err := os.Stat(fuse.Program); err != nil { // it is up
			t.Fatal(err)
		}
		testenv.Stop(t, fuse.Server)
		cmd := self(t, "-replay", filepath.Join(fuse.Dir, "recording"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		time.Sleep(time.Second) // it has begun to wait
		cmd.Process.Signal(syscall.SIGINT)
		select {
		case err := <-done:
			t.Fatalf("ended before the second signal: %v", err)
		case <-time.After(2500 * time.Millisecond):
		}
		cmd.Process.Signal(second)
		start := time.Now()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("%v: it goes on", second)
		}
		if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != second {
			t.Errorf("ended by %v, want %v", cmd.ProcessState, second)
		}
		t.Logf("%v after the second signal", time.Since(start))
	}
}
