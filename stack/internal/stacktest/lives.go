package stacktest

import (
	"fmt"
	"strings"
	"testing"
)

// Told is what a program of Lives says on a line of its output.
type Told struct {
	Function string // that it ran: first or second
	PID      int
	Start    uint64 // of the function
	From, To uint64 // CLOCK_MONOTONIC, in nanoseconds
}

// ParseTold parses the output of programs of Lives.
func ParseTold(t *testing.T, out string) (told []Told) {
	t.Helper()
	for line := range strings.Lines(out) {
		var s Told
		if _, err := fmt.Sscanf(line, "%s %d %x %d %d\n", &s.Function, &s.PID, &s.Start, &s.From, &s.To); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		told = append(told, s)
	}
	return told
}
