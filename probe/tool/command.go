package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
)

// Command is a program that a tool starts and traces. It waits until all is
// attached.
type Command struct {
	// PID is its process id.
	PID int

	cmd  *exec.Cmd
	gate *os.File // what it waits for
}

// Command starts a command of the shell's, in this process's place in the world:
// its directory, and its standard error for output. A recording has the process
// as that of -p: at replay nothing is to be started. The run ends as any other,
// not with the command.
func (t *Tool) Command(command string) (*Command, error) {
	in, gate, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	// The shell waits for a line, closes the pipe, and becomes the command.
	cmd := exec.Command("/bin/sh", "-c", "read go <&3 && exec 3<&- && exec "+command)
	cmd.ExtraFiles = []*os.File{in}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", command, err), gate.Close())
	}
	t.args = slices.Insert(t.args, 0, "-p", strconv.Itoa(cmd.Process.Pid))
	return &Command{PID: cmd.Process.Pid, cmd: cmd, gate: gate}, nil
}

// OnStart returns a context for Run, which lets the command go when all is
// attached.
func (c *Command) OnStart(ctx context.Context) context.Context {
	before, _ := ctx.Value(startKey{}).(func())
	return OnStart(ctx, func() {
		c.gate.Write([]byte("go\n"))
		if before != nil {
			before()
		}
	})
}

// Close ends the command, if it has not ended.
func (c *Command) Close() error {
	err := c.gate.Close()
	_ = c.cmd.Process.Kill() // it may be gone
	_ = c.cmd.Wait()         // how it ended is its own affair
	return err
}
