package testenv

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"runtime"
	"sync"
	"testing"
)

// Cmd is a program that a test starts, which ends with the test, and with the
// test's process however that ends: none stays on the machine.
type Cmd struct {
	*exec.Cmd
	here bool
}

// Command is exec.Command for tests. In a TestMain t is nil: there the program ends
// with the process alone.
func Command(t testing.TB, name string, args ...string) *Cmd {
	return owned(t, exec.Command(name, args...))
}

// CommandContext is exec.CommandContext for tests.
func CommandContext(ctx context.Context, t testing.TB, name string, args ...string) *Cmd {
	return owned(t, exec.CommandContext(ctx, name, args...))
}

func owned(t testing.TB, cmd *exec.Cmd) *Cmd {
	if t != nil {
		t.Cleanup(func() {
			if cmd.Process != nil {
				cmd.Process.Kill() // unless it was waited for
			}
		})
	}
	return &Cmd{Cmd: cmd}
}

// Here has the program started by the calling thread, for what it inherits of that:
// a mask of CPUs, a namespace, counters, a tracer. If the thread ends, so does the
// program.
func (c *Cmd) Here() *Cmd {
	c.here = true
	return c
}

// Start is exec.Cmd's.
func (c *Cmd) Start() error {
	endWithParent(c.Cmd)
	if c.here {
		return c.Cmd.Start()
	}
	err := make(chan error)
	starter() <- func() { err <- c.Cmd.Start() }
	return <-err
}

// Run is exec.Cmd's.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output is exec.Cmd's. It leaves standard error to the caller, or in the error.
func (c *Cmd) Output() ([]byte, error) {
	var out, diag bytes.Buffer
	c.Stdout = &out
	capture := c.Stderr == nil
	if capture {
		c.Stderr = &diag
	}
	err := c.Run()
	var exit *exec.ExitError
	if capture && errors.As(err, &exit) {
		exit.Stderr = diag.Bytes()
	}
	return out.Bytes(), err
}

// CombinedOutput is exec.Cmd's.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// starter starts programs, all from one thread that never ends: what a program
// waits for is its parent's thread to end (prctl(2), PR_SET_PDEATHSIG), and that of
// a goroutine may at any time, if another one locks it and returns.
var starter = sync.OnceValue(func() chan<- func() {
	starts := make(chan func())
	go startPrograms(starts)
	return starts
})

func startPrograms(starts <-chan func()) {
	runtime.LockOSThread()
	for start := range starts {
		start()
	}
}
