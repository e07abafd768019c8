package library

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
	"github.com/borescope/borescope/probe/script/types"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestText: the library parses, is formatted as by Format, and Macros finds all its macros.
func TestText(t *testing.T) {
	f, err := syntax.Parse(name, text, nil)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	if got := string(syntax.Format(f)); got != string(text) {
		t.Errorf("formatted is\n%s", got)
	}
	find := Macros()
	for _, d := range f.Decls {
		if m := d.(*syntax.Macro); len(find(m.Name)) != 1 {
			t.Errorf("%s is not found", m.Name)
		}
		if m := d.(*syntax.Macro); types.Library(m.Name) {
			t.Errorf("%s is text and known to types", m.Name)
		}
	}
	if find("comm") != nil {
		t.Error("comm is no text")
	}
}

// TestUses: uses of the library in scripts.
func TestUses(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"assert", `begin { assert(pid > 1, "no"); @ = 1; }`, "int8"},
		{"isErr", `kprobe:f { @ = is_err((void *)arg0); }`, "bool"},
		{"contains", `begin { @ = strcontains(comm, "sh"); }`, "bool"},
		{"static", `begin { static_assert(sizeof(1) == 1, "size"); @ = 1; }`, "int8"},
		{"own", `macro is_err(a, b) { (a, b) } begin { @ = is_err(1, true); }`, "(int8,bool)"},
		{"instead", `macro is_err(a) { a } begin { @ = is_err(1); }`, "int8"},
		{
			"fails", `begin { static_assert(sizeof(1) == 2, "size is 1"); }`,
			name + ":15:5-18: ERROR: size is 1\n    fail(message);\n    ~~~~~~~~~~~~~\n" +
				"stdin:1:9-51: ERROR: expanded from\n",
		},
		{
			"count", `begin { assert(1); }`, "Call to assert() has arguments that do not match any " +
				"definition.\nbegin { assert(1); }\n        ~~~~~~~~~\n" + name + ":3:1-13: ERROR: The closest " +
				"definition of assert() has a different number of arguments. Expected: 2 but got 1\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := syntax.Parse("stdin", []byte(test.script), nil)
			if err == nil {
				err = syntax.Expand(f, &syntax.ExpandOptions{Library: Macros(), Builtin: types.Library})
			}
			if err == nil {
				err = attach.Parse(f, nil)
			}
			var p *types.Script
			if err == nil {
				p, err = types.Check(f, nil)
			}
			if err != nil {
				if !strings.Contains(syntax.ErrorText(err), test.want) {
					t.Errorf("error is\n%s\nwant\n%s", syntax.ErrorText(err), test.want)
				}
				return
			}
			if _, v := p.Map("@"); v.String() != test.want {
				t.Errorf("@ is %v, want %q", v, test.want)
			}
		})
	}
}
