package spelling

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// words of a language with two kinds and one option.
var words = Words{
	Kind:   func(w string) (bool, bool) { return w == "kprobe" || w == "begin", w == "begin" },
	Option: func(w string) bool { return w == "pid" },
}

// pieces are the kinds, parts and options of a text.
func pieces(text string) (string, error) {
	var out []string
	err := words.Scan(text, func(s *Scanned) error {
		line := s.Kind
		for _, p := range s.Parts {
			line += fmt.Sprintf("|%s", p.Text)
			if p.Suffix != "" {
				line += "~" + p.Suffix
			}
		}
		for _, o := range s.Options {
			line += fmt.Sprintf(" %s=%s", o.Key, o.Value)
		}
		out = append(out, line)
		return nil
	})
	return strings.Join(out, ";"), err
}

func TestScan(t *testing.T) {
	for text, want := range map[string]string{
		"kprobe:a:b":               "kprobe|a|b",
		` kprobe:"a:b,kprobe:"+4 `: "kprobe|a:b,kprobe:~+4",
		"kprobe:a,b":               "kprobe|a,b",
		"kprobe:a, kprobe:b,begin": "kprobe|a;kprobe|b;begin",
		"kprobe:a,beginner":        "kprobe|a,beginner",
		"kprobe:a b pid=3":         "kprobe|a b pid=3",
		`kprobe:a pid="x y" pid`:   "kprobe|a pid=x y pid=",
		"":                         "",
		"kprobe::":                 "kprobe||",
	} {
		if got, err := pieces(text); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	for text, offset := range map[string]int{`kprobe:"a`: 7, `kprobe:a pid="x`: 13, `begin,kprobe:"\q"`: 13} {
		var bad *SyntaxError
		if _, err := pieces(text); !errors.As(err, &bad) || bad.Offset != offset || bad.Input != text {
			t.Errorf("%q: %v, want an error at %d", text, err, offset)
		}
	}
}

// FuzzQuote: a part that was quoted is read back as it was, whatever stands around it.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a", "a:b", `"`, "a,kprobe:b", "0x1", "a pid=1", "a+b", "\xff", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, part string) {
		for _, quoted := range []string{Quote(part), QuoteName(part)} {
			n := 0
			err := words.Scan("kprobe:"+quoted+":x pid="+quoted+",begin", func(s *Scanned) error {
				if n++; n == 1 && (len(s.Parts) != 2 || s.Parts[0].Text != part || s.Options[0].Value != part) {
					t.Errorf("%q is read as %+v", part, s)
				}
				return nil
			})
			if err != nil || n != 2 {
				t.Errorf("%q: %v, %d targets", part, err, n)
			}
		}
	})
}
