package script_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
)

// snippet returns a snippet of a text: "TARGET|FILTER|VALUES".
func snippet(text string) *script.Snippet {
	target, rest, _ := strings.Cut(text, "|")
	filter, values, _ := strings.Cut(rest, "|")
	s := &script.Snippet{Name: "typed", Text: text, Target: script.Part{End: len(target)}, Printf: strings.HasPrefix(values, `"`)}
	if filter != "" {
		s.Filter = script.Part{Start: len(target) + 1, End: len(target) + 1 + len(filter)}
	}
	s.Values = script.Part{Start: len(text) - len(values), End: len(text)}
	return s
}

// TestInline: the statements and values of a snippet, without what scripts add around them.
func TestInline(t *testing.T) {
	for text, want := range map[string]string{
		"begin|pid == 1|":                      "if (pid == 1) {\n} else {\n\treturn\n};",
		"begin||pid, comm == \"x\"":            "pid; (comm == \"x\");",
		"begin||(pid)":                         "pid;",
		"begin|| // nothing\n pid":             "pid;",
		"begin||(pid, (1, comm))":              "pid; (1, comm);",
		"begin||\"%d %s\", 2 * 3, comm":        "6; comm;",
		"begin||pid % tid":                     "$dividend = pid; $divisor = tid; if ($divisor == 0) {\n\t$dividend = 1\n\t$divisor = 2\n}; ($dividend % $divisor);",
		"begin|strcontains(comm, \"x\")|":      "if (strstr(comm, \"x\") != -1) {\n} else {\n\treturn\n};",
		"profile:hz:9,begin||cpu":              "cpu; cpu;",
		"profile:hz:9,profile:hz:5||cpu":       "cpu;",
		"begin|$x = 1; pid|":                   "error",
		"begin||{ $x = pid; $x + 1 }":          "$$x = pid; ($$x + 1);",
		"begin||signal(9)":                     "error",
		"begin||exit()":                        "error",
		"begin||print(1)":                      "error",
		"begin||pid)); @x = count(); print((1": "error",
		"begin|| ":                             "",
	} {
		list, err := script.Inline(snippet(text), &script.Options{Unsafe: true})
		var got strings.Builder
		for _, in := range list {
			for _, s := range in.Body {
				fmt.Fprintf(&got, "%v; ", s)
			}
			for _, x := range in.Values {
				fmt.Fprintf(&got, "%v; ", x)
			}
			if len(in.Values) != len(in.Types) || in.Format != "" && len(in.Verbs) != len(in.Values) {
				t.Errorf("%s: %+v", text, in)
			}
		}
		if err != nil {
			got.WriteString("error")
		}
		plain := casts.Replace(strings.TrimSpace(got.String()))
		if plain != want {
			t.Errorf("%s is\n%s: %v, want\n%s", text, plain, err, want)
		}
	}
}

// casts removes the casts of numbers.
var casts = strings.NewReplacer("(u32)", "", "(u64)", "", "(s64)", "", "(s32)", "", "(s8)", "", "(u8)", "")

// TestInlinePlaces: errors and statements have their places in what the user wrote.
func TestInlinePlaces(t *testing.T) {
	for text, want := range map[string]string{
		"begin|pid = 1|":                       "=",
		"begin|pid ==|comm":                    "",
		"begin|nope|":                          "nope",
		"begin||pid,\n nope":                   "nope",
		"begin||pid + strcontains(comm, nope)": "nope",
		"begin|pid|\"%d\", comm":               "\"%d\", comm",
		"nope:a||pid":                          "nope:a",
	} {
		_, err := script.Inline(snippet(text), nil)
		list, ok := errors.AsType[syntax.Errors](err)
		if !ok {
			t.Errorf("%s: %v", text, err)
			continue
		}
		at := list[0].Loc
		if got := strings.TrimSpace(at.Text()); at.In == nil || at.In.Content != text || got != want {
			t.Errorf("%s: %v at %q, want %q", text, err, got, want)
		}
	}
	list, err := script.Inline(snippet("begin|pid|\ntid, cpu"), nil)
	if err != nil || list[0].Body[0].Pos != (ir.Pos{File: "typed", Line: 1, Col: 7}) || list[0].Values[1].Pos != (ir.Pos{File: "typed", Line: 2, Col: 6}) {
		t.Errorf("%+v at %v and %v: %v", list, list[0].Body[0].Pos, list[0].Values[1].Pos, err)
	}
}

func ExampleInline() {
	s := &script.Snippet{
		Name: "-e", Text: "begin /pid > 1/ comm",
		Target: script.Part{Start: 0, End: 5}, Filter: script.Part{Start: 7, End: 14}, Values: script.Part{Start: 16, End: 20},
	}
	list, err := script.Inline(s, nil)
	fmt.Println(list[0].Values[0], list[0].Types[0], err)
	// Output: comm string[16] <nil>
}
