package tool

import (
	"context"
	"os"
	"runtime/debug"
	"strings"

	"github.com/borescope/borescope/internal/escape"
	"github.com/borescope/borescope/internal/privileges"
	"github.com/borescope/borescope/probe/tool/cli"
)

// Main runs a tool as the whole work of the process, and returns the exit status for main: 0,
// 2 after a mistake on the command line, 1 after any other error. It prints the error, joined
// ones one to a line. Interrupt and SIGTERM end run's context, also before anything is
// attached, so that an early Ctrl-C still prints the summary. Another one more than a second
// later ends the process at once (cli.Main, cli.Context). When everything is attached, the process
// drops the capabilities that it no longer needs (SECURITY.md); a program with cgo prints that it
// keeps them.
func Main(name string, run func(ctx context.Context, args []string, stdout *Output) error) int {
	// A tool attaches, waits and ends: small memory matters more than speed.
	debug.SetGCPercent(smallMemory)
	return cli.Main(func() int {
		err := run(privileges.Alone(cli.Context()), os.Args[1:], NewOutput(os.Stdout))
		return cli.Status(name, err, os.Stderr)
	})
}

// smallMemory is by how many percent the heap grows from one garbage collection to the next.
const smallMemory = 40

// attaching calls open, which attaches. Until that is done speed matters more, and what is allocated for it
// is little: if the process is the tool's, collections wait.
func attaching(ctx context.Context, open func() error) error {
	if privileges.IsAlone(ctx) {
		debug.SetGCPercent(100)
		defer debug.SetGCPercent(smallMemory)
	}
	return open()
}

// Attached is for programs that attach without Tool.Run. Call it when everything is attached:
// if ctx is Main's, the process permanently drops the capabilities that it no longer needs.
// It does nothing if another program runs the tool as a part of its own work.
func Attached(ctx context.Context, name string) error { return privileges.Keep(ctx, name, false) }

// oneLine returns an error's lines, which errors.Join separates, as one line.
func oneLine(err error) string {
	return strings.Join(escape.Errors(err), "; ")
}
