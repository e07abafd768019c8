package script_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script"
)

// TestCompileBounds: what is cheap to check is cheap to compile, or refused. Each level of a
// tuple looked at all the others (5 s), and blocks that unroll repeats in each other took all
// memory.
func TestCompileBounds(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	machine := probe.NewEnv(&probe.EnvOptions{Release: "6.12.0", Root: fstest.MapFS{}})
	many := strings.Repeat
	in := func(n int, open, inner, end string) string { return many(open, n) + inner + many(end, n) }
	for name, c := range map[string]struct{ text, want string }{
		"tuples":       {"begin { @ = " + in(900, "(1, ", "1", ")") + "; }", "tuples nested more than 8 deep"},
		"left tuples":  {"begin { @ = " + in(900, "(", "1", ", 1)") + "; }", "tuples nested more than 8 deep"},
		"records":      {"begin { @ = " + in(450, "(a = 1, b = ", "1", ")") + "; }", "tuples nested more than 8 deep"},
		"unrolled":     {"begin { " + in(30, "unroll(100) { ", many("@++; ", 200), "} ") + "}", "more than 32768 expressions"},
		"nested":       {"begin { @ = " + in(8, "(1, ", "1", ")") + "; }", ""},
		"unrolled all": {"begin { unroll(100) { " + many("@++; ", 15) + "} }", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			_, _ = meter.Bounded(t, len(c.text), func() { _, err = script.Compile("stdin", c.text, &script.Options{Env: machine}) })
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%.200v, want %q", err, c.want)
			}
		})
	}
}
