package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Command is a program that a tool starts and traces. It waits until all is
// attached.
type Command struct {
	// PID is its process id.
	PID int

	cmd  *exec.Cmd
	gate *os.File // what it waits for
}

// Command starts one program, as a shell would by that line: with quotes,
// variables, patterns and redirections, but no more than one program, as its
// process is the one that is traced; "sh -c '...'" traces the shell itself. It
// runs in this process's place in the world: its directory, and its standard error
// for output. A recording has the process as that of -p: at replay nothing is to
// be started. The run ends as any other, not with the command.
func (t *Tool) Command(command string) (*Command, error) {
	if op := operator(command); op != "" {
		return nil, t.Usagef("command %q has a %q, and one program is traced: name it alone, or sh -c '...' to trace the shell", command, op)
	}
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

// operator is the first thing in a line of the shell's that is no part of a simple
// command (POSIX, Shell Command Language, 2.10), and is not quoted: "" if there is
// none.
func operator(line string) string {
	quote, before := byte(0), byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && quote != '\'':
			i++ // what follows stands for itself
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '&' && (before == '>' || before == '<'): // 2>&1
		case c == '|' && before == '>': // >|
		case strings.IndexByte("|&;()`\n", c) >= 0:
			return string(c)
		}
		before = c
	}
	return ""
}
