package tool

import (
	"io"
	"testing"

	"github.com/borescope/borescope/probe/tool/cli"
)

// A command is one program: in a pipeline or a list it would be unclear which one is meant.
// The shell interprets quotes and redirections.
func TestCommandIsOneProgram(t *testing.T) {
	for line, want := range map[string]string{
		"a b c":                   "",
		`a 'b | c; d' "e & $(f)"`: "",
		`a \| b \; c`:             "",
		"a <in >out 2>&1":         "",
		"a <>fifo >|out <&3":      "",
		`sh -c 'a | b; c && d'`:   "",
		"a | b":                   "|",
		"a; b":                    ";",
		"a && b":                  "&",
		"a &":                     "&",
		"(a)":                     "(",
		"a `b`":                   "`",
		"a\nb":                    "\n",
		`a "b" 'c' | d`:           "|",
		`a '\' | b`:               "|",
	} {
		if got := operator(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if _, err := New("demo", "").Command("true | cat"); cli.Status("demo", err, io.Discard) != 2 {
		t.Errorf("a pipeline: %v", err)
	}
}
