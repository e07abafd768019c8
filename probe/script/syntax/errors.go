package syntax

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Severity is the severity of an [Error]: with warnings only, a script can still be run.
type Severity uint8

// The two severities.
const (
	SeverityError Severity = iota
	SeverityWarning
)

// String returns ERROR or WARNING, as bpftrace prints them.
func (s Severity) String() string {
	if s == SeverityWarning {
		return "WARNING"
	}
	return "ERROR"
}

// Error is an error or a warning at a place in a script.
type Error struct {
	Loc      Loc // without a text if the error concerns the script as a whole
	Severity Severity
	Msg      string
	Notes    []Note   // other places that it refers to
	Hints    []string // how to fix it
}

// Note is another place that an error refers to.
type Note struct {
	Loc Loc
	Msg string
}

// Error returns the first line of what String returns.
func (e *Error) Error() string {
	return e.Loc.prefix() + strings.TrimSuffix(e.Msg, "\n")
}

// Limits of the text of errors in bytes.
const (
	mostMessage   = 4096      // of a message, the rest of which is cut
	mostErrorText = 256 << 10 // of all errors, from which on source lines are not shown
)

// String returns the error exactly as bpftrace prints it: place, severity and message, the
// source line with its underline, notes, hints and the uses of macros that it was expanded
// from. Lines of more than 4,096 bytes are not shown, and longer messages are cut.
func (e *Error) String() string {
	var b strings.Builder
	e.write(&b)
	return b.String()
}

// write appends the error's text.
func (e *Error) write(b *strings.Builder) {
	say := func(l *Loc, msg string) {
		if msg = strings.TrimSuffix(msg, "\n"); len(msg) > mostMessage {
			msg = msg[:mostMessage] + "..."
		}
		fmt.Fprintf(b, "%s%s: %s\n", l.prefix(), e.Severity, msg)
		if b.Len() < mostErrorText {
			l.context(b)
		}
	}
	say(&e.Loc, e.Msg)
	for i := range e.Notes {
		say(&e.Notes[i].Loc, e.Notes[i].Msg)
	}
	for _, h := range e.Hints {
		b.WriteString("HINT: " + h + "\n")
	}
	for l := e.Loc.From; l != nil; l = l.From {
		say(l, "expanded from")
	}
}

// Errors are the errors of a script, in the order in which they were found. [Parse] and the
// passes return them.
type Errors []*Error

// Error returns the first error that is no warning, and the number of further ones.
func (es Errors) Error() string {
	switch len(es) {
	case 0:
		return "no errors"
	case 1:
		return es[0].Error()
	}
	first := max(0, slices.IndexFunc(es, func(e *Error) bool { return e.Severity == SeverityError }))
	return fmt.Sprintf("%s (and %d more)", es[first].Error(), len(es)-1)
}

// Unwrap returns the errors one by one, for errors.As.
func (es Errors) Unwrap() []error {
	list := make([]error, len(es))
	for i, e := range es {
		list[i] = e
	}
	return list
}

// String returns the errors as bpftrace prints them, warnings last. Behind 256 KiB of text it
// shows no source lines.
func (es Errors) String() string {
	var b strings.Builder
	for _, s := range []Severity{SeverityError, SeverityWarning} {
		for _, e := range es {
			if e.Severity == s {
				e.write(&b)
			}
		}
	}
	return b.String()
}

// ErrorText returns an error of this package as bpftrace prints it, and any other error as an ERROR
// line without a place.
func ErrorText(err error) string {
	if es, ok := errors.AsType[Errors](err); ok {
		return es.String()
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.String()
	}
	return "ERROR: " + err.Error() + "\n"
}

// Err returns the errors as an error, nil if all of them are warnings.
func (es Errors) Err() error {
	for _, e := range es {
		if e.Severity == SeverityError {
			return es
		}
	}
	return nil
}
