package tool

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/stack/collect"
)

// TestRequires: -requires prints what the run needs, and attaches nothing.
func TestRequires(t *testing.T) {
	program := func(target probe.Target) *action.Program {
		p := action.NewProgram("demo")
		p.On(target, func(*action.Ctx) {})
		return p
	}
	never := func(*Run) error {
		t.Error("the body was called")
		return nil
	}
	for name, c := range map[string]struct {
		run  func(tl *Tool, w *Output) error
		want []string
	}{
		"programs": {func(tl *Tool, w *Output) error {
			return tl.Run(t.Context(), w, "Nothing", never, program(probe.SocketFilter{Interface: "lo"}), program(probe.Begin{}))
		}, []string{"CAP_BPF", "CAP_NET_RAW"}},
		"stacks": {func(tl *Tool, w *Output) error {
			attach := func(*probe.Env) (*collect.Collector, error) {
				t.Error("attached")
				return nil, io.EOF
			}
			body := func(r *Run, _ *Stacks) error { return never(r) }
			return tl.RunStacks(t.Context(), w, "Nothing", attach, body)
		}, []string{"CAP_BPF", "CAP_PERFMON", "CAP_DAC_READ_SEARCH"}},
	} {
		for _, flags := range []string{"-requires", "-requires -json"} {
			tl := New("demo", "Show nothing.", "demo", "all", "demo -x", "some")
			if err := tl.Parse(strings.Fields(flags), NewOutput(io.Discard)); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := c.run(tl, NewOutput(&out)); err != nil {
				t.Errorf("%s %s: %v", name, flags, err)
			}
			var got []string
			for line := range strings.Lines(out.String()) {
				var r probe.Requirement
				if strings.HasSuffix(flags, "-json") {
					if err := json.Unmarshal([]byte(line), &r); err != nil {
						t.Errorf("%v: %q", err, line)
					}
				} else if f := strings.Fields(line); len(f) > 1 {
					r.Kind, r.Name = f[0], f[1]
				}
				if r.Kind == "capability" {
					got = append(got, r.Name)
				}
			}
			for _, name := range c.want {
				if !slices.Contains(got, name) {
					t.Errorf("%s: requires %q, not %s:\n%s", flags, got, name, out.String())
				}
			}
		}
	}
}
