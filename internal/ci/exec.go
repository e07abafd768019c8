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

// exec runs a command with the step's log as its output, of which the end is
// worth showing if it fails.
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
	cmd := c.prepare(ctx, env, name, args...)
	cmd.Stdout, cmd.Stderr = stdout, c.out
	if err := runGroup(cmd); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// runGroup runs a command that was prepared, and ends what it has left running.
func runGroup(cmd *exec.Cmd) error {
	err := cmd.Run()
	endGroup(cmd)
	return err
}

// prepare returns a command that is ended with the context, and says it in the log.
func (c *check) prepare(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	argv := append(append(c.via[:len(c.via):len(c.via)], name), args...)
	fmt.Fprintf(c.out, "$ %s %s\n", strings.Join(env, " "), strings.Join(argv, " "))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// A test that is cut short shall say where it stands.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), env...)
	ownGroup(cmd)
	return cmd
}

// command is a step that is one command.
func command(name string, args ...string) func(context.Context, *check) (testlog.Counts, error) {
	return func(ctx context.Context, c *check) (testlog.Counts, error) {
		return testlog.Counts{}, c.exec(ctx, nil, name, args...)
	}
}

// toolArgs is how the go command runs a tool of internal/tools.
func toolArgs(name string, args ...string) []string {
	return append([]string{"tool", "-modfile=" + filepath.FromSlash("internal/tools/go.mod"), name},
		args...)
}

// tool is a step that is one developer tool.
func tool(name string, args ...string) func(context.Context, *check) (testlog.Counts, error) {
	return command("go", toolArgs(name, args...)...)
}

func gofumpt(ctx context.Context, c *check) (testlog.Counts, error) {
	var out bytes.Buffer
	// Given ".", gofumpt skips testdata and vendored code by itself.
	err := c.execTo(ctx, &out, nil, "go", toolArgs("gofumpt", "-l", ".")...)
	if err == nil && out.Len() > 0 {
		err = fmt.Errorf("not formatted:\n%s", out.String())
	}
	return testlog.Counts{}, err
}
