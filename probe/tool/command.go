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

// Command is a program that a tool starts and traces. It does not run before everything is
// attached.
type Command struct {
	// PID is the program's process id.
	PID int

	cmd  *exec.Cmd
	gate *os.File // the program waits for a line from it
	// entered is closed when the program is not waited for at its entry point any more; nil if it is not.
	entered chan struct{}
}

// Command starts one program from a command line as in a shell: with quotes, variables,
// patterns and redirections. The line must not contain more than one program, because the
// tool traces the program's process; "sh -c '...'" traces the shell itself. The program has
// this process's working directory and standard input, and writes its output to this
// process's standard error. A recording has the process as the argument of -p, since a replay
// starts nothing. The run does not end with the command. The caller closes the Command.
func (t *Tool) Command(command string) (*Command, error) {
	c, err := StartCommand(command, os.Stderr)
	var not *notOneError
	if errors.As(err, &not) {
		return nil, t.Usagef("%v", not)
	}
	if err != nil {
		return nil, err
	}
	t.args = slices.Insert(t.args, 0, "-p", strconv.Itoa(c.PID))
	return c, nil
}

// notOneError is the error for a command line of several programs.
type notOneError struct{ command, operator string }

func (e *notOneError) Error() string {
	return fmt.Sprintf("command %q has a %q, and one program is traced: name it alone, or sh -c '...' to trace the shell",
		e.command, e.operator)
}

// StartCommand is Command for programs that are no Tool, with the place of the program's standard
// output. The program runs when Go is called.
func StartCommand(command string, stdout *os.File) (*Command, error) {
	if op := operator(command); op != "" {
		return nil, &notOneError{command, op}
	}
	in, gate, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	// The shell waits for a line, closes the pipe, and becomes the command.
	cmd := exec.Command("/bin/sh", "-c", "read go <&3 && exec 3<&- && exec "+command)
	cmd.ExtraFiles = []*os.File{in}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", command, err), gate.Close())
	}
	return &Command{PID: cmd.Process.Pid, cmd: cmd, gate: gate}, nil
}

// Go lets the program run.
func (c *Command) Go() error {
	_, err := c.gate.Write([]byte("go\n"))
	return err
}

// GoAfter lets the program run, but has it wait at its entry point, when it is in memory with its libraries,
// until f has returned. f runs in a goroutine of its own, which Wait joins. The program gets a SIGTRAP there,
// which it does not see, but probes do. f is not called if the program does not get there, or if this process
// lacks CAP_SYS_PTRACE (ptrace(2)).
func (c *Command) GoAfter(f func()) {
	c.entered = make(chan struct{})
	go func() {
		defer close(c.entered)
		c.enter(f)
	}()
}

// Wait waits for the end of the program, whose exit status does not matter. It is called once.
func (c *Command) Wait() {
	if c.entered != nil {
		<-c.entered // which waits for its stops
	}
	_ = c.cmd.Wait()
}

// Kill ends the program, if it is still there. The caller waits for it.
func (c *Command) Kill() error {
	err := c.gate.Close()
	_ = c.cmd.Process.Kill() // it may be gone
	return err
}

// OnStart returns a context for Run, which starts the command when everything is attached.
func (c *Command) OnStart(ctx context.Context) context.Context {
	before, _ := ctx.Value(startKey{}).(func())
	return OnStart(ctx, func() {
		_ = c.Go() // it may be gone
		if before != nil {
			before()
		}
	})
}

// Close kills the command if it is still running.
func (c *Command) Close() error {
	err := c.Kill()
	c.Wait()
	return err
}

// operator returns the first unquoted character of a shell's command line that is not part of
// a simple command (POSIX, Shell Command Language, 2.10), "" if there is none.
func operator(line string) string {
	quote, before := byte(0), byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && quote != '\'':
			i++ // the next character is literal
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
