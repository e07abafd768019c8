package escape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Fprintf is like fmt.Fprintf but makes every argument's text safe for a terminal. Line
// ends come only from the format, which is the program's own.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return io.WriteString(w, Sprintf(format, args...))
}

// Sprintf is like Fprintf but returns a string.
func Sprintf(format string, args ...any) string {
	const forVet = false
	if forVet { // by this, vet compares the formats of all callers with their arguments
		return fmt.Sprintf(format, args...)
	}
	return fmt.Sprintf(format, wrap(args)...)
}

// Sprintln is like fmt.Sprintln, and safe like Sprintf.
func Sprintln(args ...any) string { return fmt.Sprintln(wrap(args)...) }

// wrap leaves numbers as they are, '*' takes them from the arguments.
func wrap(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case string:
			out[i] = Terminal(a)
		case bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, uintptr, float32,
			float64, nil:
			out[i] = a
		default:
			out[i] = argument{a}
		}
	}
	return out
}

// argument formats as what it holds would, safely.
type argument struct{ v any }

// Format implements fmt.Formatter.
func (a argument) Format(f fmt.State, verb rune) {
	io.WriteString(f, Terminal(fmt.Sprintf(fmt.FormatString(f, verb), a.v)))
}

// Marshal is like json.Marshal but leaves <, > and & unchanged, and escapes characters that
// a terminal acts on.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return JSON(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// Errors returns the errors that errors.Join put together, each as one line; for any other
// error it returns one line.
func Errors(err error) []string {
	if j, ok := err.(interface{ Unwrap() []error }); ok &&
		err.Error() == errors.Join(j.Unwrap()...).Error() {
		var lines []string
		for _, e := range j.Unwrap() {
			lines = append(lines, Errors(e)...)
		}
		return lines
	}
	var parts []string
	for line := range strings.Lines(err.Error()) {
		if words := strings.Fields(line); len(words) > 0 {
			parts = append(parts, strings.Join(words, " "))
		}
	}
	return []string{Terminal(strings.Join(parts, "; "))}
}
