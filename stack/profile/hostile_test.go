package profile

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	pprof "github.com/google/pprof/profile"

	"github.com/borescope/borescope/internal/escape"
	"github.com/borescope/borescope/stack"
)

// TestHostileNames: names with what readers of lines and terminals act on passed
// into folded stacks, pictures and tables, and bytes that are no UTF-8 into
// pprof's strings, which proto3's readers refuse.
func TestHostileNames(t *testing.T) {
	const name = "a;b 5\nx\x1b\u009b\u202e\u2066\u2028\xff</script>]]>"
	p := &Profile{
		Comments: []string{name}, SampleTypes: []ValueType{{name, name}}, PeriodType: ValueType{name, name},
		Samples: []Sample{{
			Comm: name, PID: 7, Values: []int64{1}, Labels: []Label{{Key: name, Str: name}, {Key: name, Num: 1, Unit: name}},
			Frames: []*NamedFrame{{
				Frame: stack.Frame{PC: 0x1010}, Mapping: &Mapping{Start: 0x1000, Limit: 0x2000, File: name, BuildID: name},
				Functions: []Function{{Name: name, SystemName: name, File: name, Line: 1}},
			}},
		}},
	}
	folded := p.Folded(nil)
	for sink, write := range map[string]func(w io.Writer) error{
		"folded": func(w io.Writer) error { _, err := folded.WriteTo(w); return err },
		"svg": func(w io.Writer) error {
			return WriteSVG(w, folded, &SVGOptions{Title: name, CountName: name, Notes: name})
		},
		"html": func(w io.Writer) error {
			return WriteHTML(w, folded, &HTMLOptions{Title: name, CountName: name})
		},
		"speedscope":  func(w io.Writer) error { return p.WriteSpeedscope(w, name) },
		"perf script": func(w io.Writer) error { return p.WritePerfScript(w, name, 0) },
		"top":         func(w io.Writer) error { _, err := p.Top(nil).WriteTo(w); return err },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Errorf("%s: %v", sink, err)
		}
		for line := range strings.Lines(b.String()) {
			if line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", ""); !escape.Safe(line) {
				t.Errorf("%s: %+.200q", sink, line)
			}
		}
		if sink == "folded" && strings.Count(b.String(), "\n") != 1 {
			t.Errorf("folded lines were forged: %q", b.String())
		}
	}
	var b bytes.Buffer
	if err := p.WritePprof(&b); err != nil {
		t.Fatal(err)
	}
	q, err := pprof.ParseData(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if text := q.String(); !utf8.ValidString(text) || !strings.Contains(text, "\ufffd") {
		t.Errorf("not UTF-8: %q", text)
	}
}
