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

// Options are those with which the case runs: a name that ends with "-k" asks for failures.
func (c *Case) Options() *Options { return &Options{Failures: strings.HasSuffix(c.Name, "-k")} }

// younger are parts of scripts that need a kernel's feature, which some of those that are tested lack.
var younger = map[string]string{
	"..":          "bpf_loop (5.17)",
	"for ($kv":    "bpf_for_each_map_elem (5.13)",
	"print((@c, ": "bpf_map_lookup_percpu_elem (5.19)",
}

// MustCompile compiles a script for this machine, whose kernel may lack a feature.
func MustCompile(t *testing.T, text string, o *Options) *Program {
	t.Helper()
	p, err := Compile("stdin", text, o)
	for part, feature := range younger {
		if err != nil && strings.Contains(text, part) {
			testenv.Need(t, testenv.Got(feature, err, "Missing required kernel feature"))
		}
	}
	if err != nil {
		t.Fatalf("%s%v", syntax.ErrorText(err), err)
	}
	return p
}
