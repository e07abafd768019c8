// Package cli is the command line of the small programs that trace nothing, as
// package tool is that of the tracers: their errors and exit statuses are the same.
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

// UsageError is a mistake on the command line.
type UsageError struct {
	program string
	err     error
}

// Error reads "CAUSE (PROGRAM -h lists the flags)".
func (e *UsageError) Error() string {
	return fmt.Sprintf("%v (%s -h lists the flags)", e.err, e.program)
}

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.err }

// ExitStatus is that of such a mistake.
func (e *UsageError) ExitStatus() int { return 2 }

// Usage is a mistake that the program itself has found.
func Usage(program string, err error) error { return &UsageError{program, err} }

// Parse parses args with fs, which continues on errors. With -h it writes the
// usage to help and returns flag.ErrHelp; a mistake is a *UsageError, and
// nothing is printed.
func Parse(fs *flag.FlagSet, args []string, help io.Writer) error {
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(help)
		return fs.Parse([]string{"-h"})
	case err != nil:
		return &UsageError{fs.Name(), err}
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

// Terminal says whether w is a terminal that understands colours and such.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "" && os.Getenv("TERM") != "dumb"
}
