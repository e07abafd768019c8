// Package cli is the command line of small programs: package tool's flags, errors and
// exit statuses without its probes, for those that trace nothing.
//
//	func main() { os.Exit(cli.Status("lines", run(os.Args[1:], os.Stdout), os.Stderr)) }
//
// A mistake on the command line is one line and status 2, anything else that goes
// wrong one line and status 1, what errors.Join has a line each.
package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/borescope/borescope/escape"
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

// ExitStatus is what Status asks for.
func (e *usageError) ExitStatus() int { return 2 }

// Usage returns a mistake on the command line that the program itself has found:
// "CAUSE (PROGRAM -h lists the flags)", which Status returns 2 for.
func Usage(program string, err error) error { return &usageError{program, err} }

// Parse parses args with fs, which continues on errors. With -h it writes the
// usage to help and returns flag.ErrHelp; a mistake is Usage's, and nothing is
// printed.
func Parse(fs *flag.FlagSet, args []string, help io.Writer) error {
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(help)
		return fs.Parse([]string{"-h"})
	case err != nil:
		return &usageError{fs.Name(), err}
	}
	return nil
}

// Status prints a program's error, joined ones each in a line, and returns its exit
// status: 0 also after -h and where nobody reads the output any more, what an error's
// method ExitStatus says, 1 for any other.
func Status(program string, err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) || errors.Is(err, syscall.EPIPE) {
		return 0
	}
	for _, line := range escape.Errors(err) {
		fmt.Fprintf(stderr, "%s: %s\n", program, line)
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

// Terminal reports whether w is a terminal that understands colours.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "" &&
		os.Getenv("TERM") != "dumb"
}
