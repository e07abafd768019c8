package tool

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/borescope/borescope/escape"
	"github.com/borescope/borescope/internal/privileges"
	"github.com/borescope/borescope/probe/tool/cli"
)

// Main runs a tool as the process's whole work, and returns the exit status for
// main to exit with: 0, 2 after a mistake on the command line, 1 after any other
// error, which is printed, joined ones each in a line. Interrupt and SIGTERM end run's
// context, also before anything is attached, so that an early Ctrl-C still prints the
// summary; another one, a second later, ends the process. Once all is attached, the
// process gives up the capabilities that it doesn't need any more (SECURITY.md); a
// program with cgo says that it keeps them.
func Main(name string, run func(ctx context.Context, args []string, stdout io.Writer) error) int {
	// A tool that attaches, waits and ends wants little memory more than speed.
	debug.SetGCPercent(40)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// timeout(1) sends its signal twice, to the process and to its group: what
	// comes within a second of the first one is the same Ctrl-C.
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	return cli.Status(name, run(privileges.Alone(ctx), os.Args[1:], os.Stdout), os.Stderr)
}

// Attached is for programs that attach by themselves, without a Tool's Run: now that all
// is attached, the process gives up, for good, the capabilities that it doesn't need
// any more, if ctx is Main's. It does nothing where another program runs the tool as a
// part of what it does.
func Attached(ctx context.Context, name string) error { return privileges.Keep(ctx, name, false) }

// oneLine puts what errors.Join has on lines of their own behind each other.
func oneLine(err error) string {
	return strings.Join(escape.Errors(err), "; ")
}
