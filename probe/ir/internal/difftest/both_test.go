package difftest

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/interp"
)

// bothTrees interprets a program as the checker returned it and as the optimiser changed it,
// from which code is generated. Both must do the same.
type bothTrees struct {
	program          *ir.Program
	plain, optimised *interp.Interp
}

func interpret(t testing.TB, p *ir.Program, plan *probe.Plan) bothTrees {
	t.Helper()
	in, err := interp.New(p, plan, 0)
	if err != nil {
		t.Fatalf("%v\n%s", err, p)
	}
	return bothTrees{p, in, in.Optimised()}
}

// run runs both trees from the machine's state. m is the machine of the tree that was not
// optimised.
func (b bothTrees) run(t testing.TB, m *interp.Machine) {
	t.Helper()
	twin := *m
	twin.Maps, twin.Events, twin.Lost = cloneEntries(m.Maps), maps.Clone(m.Events), maps.Clone(m.Lost)
	if err := b.plain.Run(m); err != nil {
		t.Fatalf("%v\n%s", err, b.program)
	}
	if err := b.optimised.Run(&twin); err != nil {
		t.Fatalf("optimised: %v\n%s", err, b.program)
	}
	sameMachine(t, b.program, m, &twin)
}

// cloneEntries returns a deep copy of maps.
func cloneEntries(in map[*ir.Map]map[string][]byte) map[*ir.Map]map[string][]byte {
	out := map[*ir.Map]map[string][]byte{}
	for m, entries := range in {
		out[m] = map[string][]byte{}
		for k, v := range entries {
			out[m][k] = slices.Clone(v)
		}
	}
	return out
}

// sameMachine fails the test unless the optimised program left the same as the plain one, and
// did not read more.
func sameMachine(t testing.TB, p *ir.Program, plain, optimised *interp.Machine) {
	t.Helper()
	for _, m := range p.AllMaps() {
		if a, b := used(plain.Maps[m]), used(optimised.Maps[m]); !reflect.DeepEqual(a, b) {
			t.Fatalf("map %s: the optimised program leaves\n%v\ninstead of\n%v\n%s", m.Name, b, a, p)
		}
	}
	type outcome struct {
		Events                          map[*ir.Map][][]byte
		Lost                            map[*ir.Map]uint64
		Traced                          []interp.Traced
		Exit, Overridden, Skipped       bool
		Code, Signal, Return, Cookie    uint64
		fewerFaults, fewerCutsThanPlain bool
	}
	of := func(m *interp.Machine) outcome {
		return outcome{
			m.Events, m.Lost, m.Traced, m.ExitRequested, m.Overridden, m.Skipped,
			uint64(m.ExitCode), uint64(m.Signal), m.Return, m.Cookie,
			m.Faults <= plain.Faults, m.Truncated <= plain.Truncated,
		}
	}
	if a, b := of(plain), of(optimised); !reflect.DeepEqual(a, b) {
		t.Fatalf("the optimised program does\n%+v\ninstead of\n%+v\n%s", b, a, p)
	}
}

// used returns the entries that are not zeros: arrays also have entries that were only read.
func used(entries map[string][]byte) map[string]string {
	out := map[string]string{}
	for k, v := range entries {
		if slices.ContainsFunc(v, func(b byte) bool { return b != 0 }) {
			out[k] = string(v)
		}
	}
	return out
}
