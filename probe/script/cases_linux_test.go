package script

import (
	"os"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script/syntax"
)

// Case is a script with what it prints and what it warns of.
type Case struct{ Name, Text, Want, Warned string }

// Cases reads a file of cases: "=== name", the script, "---", the output, and if there
// are warnings, "+++" and these.
func Cases(t *testing.T, file string) []Case {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []Case
	for _, part := range strings.Split(string(data), "=== ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		text, want, ok := strings.Cut(rest, "---\n")
		if !ok {
			t.Fatalf("%s: %s has no output", file, name)
		}
		want, warned, _ := strings.Cut(want, "+++\n")
		list = append(list, Case{name, text, want, warned})
	}
	return list
}

// MustCompile compiles a script for this machine, whose kernel may lack loops over ranges.
func MustCompile(t *testing.T, text string, o *Options) *Program {
	t.Helper()
	p, err := Compile("stdin", text, o)
	if err != nil && strings.Contains(text, "..") {
		testenv.Need(t, testenv.Got("bpf_loop (5.17)", err, "Missing required kernel feature: loop"))
	}
	if err != nil {
		t.Fatalf("%s%v", syntax.Text(err), err)
	}
	return p
}
