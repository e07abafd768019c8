// Package cli handles the command line of small programs that do not trace: it has package
// tool's flags, errors and exit statuses without its probes.
//
//	func main() {
//		os.Exit(cli.Main(func() int {
//			return cli.Status("lines", run(os.Args[1:], cli.NewOutput(os.Stdout)), os.Stderr)
//		}))
//	}
//
// A mistake on the command line prints one line and gives status 2, any other error one line
// and status 1. Errors joined with errors.Join print one line each. What the program prints
// goes through an Output, which makes names safe for a terminal.
package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/borescope/borescope/internal/escape"
)

// usageError is a mistake on the command line.
type usageError struct {
	program string
	err     error
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%v (%s -h lists the flags)", e.err, e.program)
}

func (e *usageError) Unwrap() error { return e.err }

// ExitStatus returns the status that Status returns for the error.
func (e *usageError) ExitStatus() int { return 2 }

// Usage returns an error for a mistake on the command line that the program finds. Its text
// is "CAUSE (PROGRAM -h lists the flags)", and Status returns 2 for it.
func Usage(program string, err error) error { return &usageError{program, err} }

// Parse parses args with fs, which must have flag.ContinueOnError. With -h it prints to help
// what fs.Usage writes to fs.Output, and returns flag.ErrHelp. For a mistake it returns an
// error like Usage's, and prints nothing.
func Parse(fs *flag.FlagSet, args []string, help *Output) error {
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		var usage strings.Builder
		fs.SetOutput(&usage)
		err = fs.Parse([]string{"-h"})
		return cmp.Or(help.Text(usage.String()), err)
	case err != nil:
		return &usageError{fs.Name(), err}
	}
	return nil
}

// Status prints a program's error, joined ones one to a line, and returns its exit status: 0
// for no error, flag.ErrHelp, and EPIPE, since then nothing reads the output any more; the
// result of the error's method ExitStatus, if it has one; otherwise 1.
func Status(program string, err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) || errors.Is(err, syscall.EPIPE) {
		return 0
	}
	for _, line := range escape.Errors(err) {
		escape.Fprintf(stderr, "%s: %s\n", program, line)
	}
	var known interface {
		error
		ExitStatus() int
	}
	if errors.As(err, &known) {
		return known.ExitStatus()
	}
	return 1
}
