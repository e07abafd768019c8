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

// Cmd is a program that a test starts. It ends with the test, and with the test's process,
// however that ends: no such program stays on the machine.
type Cmd struct {
	*exec.Cmd
	here bool
}

// Command is exec.Command for tests. In a TestMain t is nil, and the program ends with the
// process only.
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
				cmd.Process.Kill() // a no-op if it was waited for
			}
		})
	}
	return &Cmd{Cmd: cmd}
}

// Here makes the calling thread start the program, which then inherits that thread's CPU mask,
// namespaces, counters or tracer. The program ends if the thread ends.
func (c *Cmd) Here() *Cmd {
	c.here = true
	return c
}

// Start is exec.Cmd.Start.
func (c *Cmd) Start() error {
	endWithParent(c.Cmd)
	if c.here {
		return c.Cmd.Start()
	}
	err := make(chan error)
	starter() <- func() { err <- c.Cmd.Start() }
	return <-err
}

// Run is exec.Cmd.Run.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output is exec.Cmd.Output: unless the caller sets Stderr, it is in the error.
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

// CombinedOutput is exec.Cmd.CombinedOutput.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// starter starts programs, all from one thread that never ends. A program ends with its
// parent's thread (prctl(2), PR_SET_PDEATHSIG), and a goroutine's thread may end at any time,
// if another goroutine locks it and returns.
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
