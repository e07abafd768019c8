package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/testlog"
)

// exec runs a command with its output in the step's log. If it fails, the end of the output is
// shown.
func (c *check) exec(ctx context.Context, env []string, name string, args ...string) error {
	log := c.out
	defer func() { c.out = log }()
	var own bytes.Buffer
	c.out = io.MultiWriter(log, &own)
	err := c.execTo(ctx, c.out, env, name, args...)
	if err != nil {
		c.worth.WriteString(lastLines(own.String(), 40))
	}
	return err
}

func (c *check) execTo(ctx context.Context, stdout io.Writer, env []string, name string,
	args ...string,
) error {
	cmd, err := c.prepare(ctx, env, name, args...)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = stdout, c.out
	if err := runGroup(cmd); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// runGroup runs a prepared command, and kills the processes that it left running.
func runGroup(cmd *exec.Cmd) error {
	err := cmd.Run()
	endGroup(cmd)
	return err
}

// prepare returns a command that ends with the context, and writes it to the log.
func (c *check) prepare(ctx context.Context, env []string, name string, args ...string,
) (*exec.Cmd, error) {
	argv := append(append(c.via[:len(c.via):len(c.via)], name), args...)
	fmt.Fprintf(c.out, "$ %s %s\n", strings.Join(env, " "), strings.Join(argv, " "))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// A test that is interrupted should print where it is.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), env...)
	ownGroup(cmd)
	if c.confined != nil {
		return cmd, c.confined.wrap(cmd)
	}
	return cmd, nil
}

// command returns a step that is one command.
func command(name string, args ...string) func(context.Context, *check) (testlog.Counts, error) {
	return func(ctx context.Context, c *check) (testlog.Counts, error) {
		return testlog.Counts{}, c.exec(ctx, nil, name, args...)
	}
}

// toolArgs returns the go command's arguments for running a tool of internal/tools.
func toolArgs(name string, args ...string) []string {
	return append([]string{"tool", "-modfile=" + filepath.FromSlash("internal/tools/go.mod"), name},
		args...)
}

// tool returns a step that is one developer tool.
func tool(name string, args ...string) func(context.Context, *check) (testlog.Counts, error) {
	return command("go", toolArgs(name, args...)...)
}

func gofumpt(ctx context.Context, c *check) (testlog.Counts, error) {
	var out bytes.Buffer
	// With ".", gofumpt skips testdata and vendored code.
	err := c.execTo(ctx, &out, nil, "go", toolArgs("gofumpt", "-l", ".")...)
	if err == nil && out.Len() > 0 {
		err = fmt.Errorf("not formatted:\n%s", out.String())
	}
	return testlog.Counts{}, err
}
