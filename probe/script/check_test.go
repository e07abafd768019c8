package script_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
)

// TestCheckSays: warnings are beside the result, and beside the errors if there are any.
// Before, the warnings of imports and the configuration were lost with the first error.
func TestCheckSays(t *testing.T) {
	const missing = "#include \"no.h\"\n"
	for _, test := range []struct {
		name, text       string
		errors, warnings []string
	}{
		{"neither", `begin { @ = 1; }`, nil, nil},
		{"warnings", missing + `begin { while (pid > 1) { 2; } }`, nil, []string{
			"'no.h' file not found", "While loops are deprecated", "Return value discarded",
		}},
		{"syntax", missing + `begin { @ = }`, []string{"expected expression"}, nil},
		{"import", missing + `import "no.bt"; begin { @ = 1; }`, []string{"suitable path for import"}, []string{
			"'no.h' file not found",
		}},
		{"config", missing + `config = { stack_mode = x } begin { @ = 1; }`, []string{"Invalid value"}, []string{
			"'no.h' file not found",
		}},
		{"attach", missing + `nosuch:f { @ = 1; }`, []string{"nosuch"}, []string{"'no.h' file not found"}},
		{"types", missing + `begin { 1; print($b); }`, []string{"Undefined"}, []string{
			"'no.h' file not found",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := script.Check("stdin", test.text, &script.Options{
				Imports: []script.Dir{{Name: "lib", FS: fstest.MapFS{}}},
			})
			if c == nil || c.File == nil || (c.Types != nil) != (err == nil) {
				t.Fatalf("result is %+v, error is %v", c, err)
			}
			var wrong syntax.Errors
			if said, _ := errors.AsType[syntax.Errors](err); err != nil {
				for _, e := range said {
					if e.Severity == syntax.SeverityError {
						wrong = append(wrong, e)
					}
				}
				if got, want := len(said)-len(wrong), len(c.Warnings); got != want {
					t.Errorf("%d warnings are in the error, %d beside it", got, want)
				}
			}
			have(t, "errors", wrong, test.errors)
			have(t, "warnings", c.Warnings, test.warnings)
		})
	}
}

// have compares messages with parts of them.
func have(t *testing.T, what string, got syntax.Errors, want []string) {
	t.Helper()
	same := len(got) == len(want)
	for i := 0; same && i < len(want); i++ {
		same = strings.Contains(got[i].Msg, want[i])
	}
	if !same {
		t.Errorf("%s are\n%swant %q", what, got.String(), want)
	}
}

// TestNoPoints: a probe that may be missing, and has no attach point, is left out. Before, its
// builtins were an index out of range.
func TestNoPoints(t *testing.T) {
	for _, points := range []string{"*:a:b:c:d:e:f", "*:a:b:c:d:e:f, *:g:h:i:j:k:l"} {
		c, err := script.Check("stdin", `config = { missing_probes = "ignore" } begin { @ = 1; } `+points+
			` { print(probe); print(args); $x = retval; signal(1); }`, nil)
		if err != nil {
			t.Errorf("%s: %s", points, syntax.ErrorText(err))
			continue
		}
		if got := string(syntax.Dump(c.Types.File)); strings.Contains(got, "args") {
			t.Errorf("%s: typed is\n%s", points, got)
		}
	}
}

// TestRead: macros are expanded and attach points are not read yet.
func TestRead(t *testing.T) {
	c, err := script.Read("stdin", `macro one() { 1 } nosuch:f { @ = one(); }`, nil)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	if got := string(syntax.Dump(c.File)); !strings.Contains(got, "@ = { 1 }") || c.Types != nil ||
		c.Config.MaxProbes != 1024 {
		t.Errorf("read\n%s%+v", got, c)
	}
}
