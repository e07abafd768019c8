//go:build linux

package difftest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/interp"
)

// aggMaps returns aggregations of every kind, with and without keys.
func aggMaps() []*ir.Map {
	var out []*ir.Map
	for _, key := range []ir.Type{{}, ir.IntType(4, false), ir.StringType(16), ir.TupleType(ir.Field{Type: ir.IntType(4, false)}, ir.Field{Type: ir.StringType(16)}, ir.Field{Type: ir.Uint64Type()})} {
		suffix := string(rune('0' + len(out)/10))
		for _, a := range []ir.Agg{ir.AggCount, ir.AggSum, ir.AggMin, ir.AggMax, ir.AggAvg, ir.AggStats} {
			out = append(out, &ir.Map{Name: a.String() + suffix, Agg: a, Key: key, Signed: key.Kind != ir.KindInt})
		}
		for _, k := range []int{0, 2, 5} {
			out = append(out, &ir.Map{Name: "hist" + suffix + string(rune('0'+k)), Agg: ir.AggHist, Bits: k, Key: key})
		}
		out = append(out, &ir.Map{Name: "lhist" + suffix, Agg: ir.AggLinear, Min: -50, Max: 1000, Step: 10, Key: key})
		for _, inner := range []ir.Agg{ir.AggLast, ir.AggMax, ir.AggSum} {
			out = append(out, &ir.Map{
				Name: "ser" + suffix + inner.String(), Agg: ir.AggSeries, Inner: inner, Interval: 2, Slots: 64, Key: key, Signed: true,
			})
		}
	}
	return out
}

// keyFor returns a key expression of a type, made from the probe's second argument.
func keyFor(t ir.Type) *ir.Expr {
	low := ir.NewExpr(ir.OpAnd, &ir.Expr{Op: ir.OpArg, Int: 1}, ir.NewConst(3))
	switch t.Kind {
	case ir.KindAuto:
		return nil
	case ir.KindString:
		return ir.NewBuiltin("comm")
	case ir.KindTuple:
		return ir.NewExpr(ir.OpTuple, low, ir.NewBuiltin("comm"), &ir.Expr{Op: ir.OpArg, Int: 1})
	}
	return low
}

// TestAggregations compares the aggregations of random values in the kernel, on one CPU, with
// the interpreter's.
func TestAggregations(t *testing.T) {
	needRoot(t)
	setComm(t, testComm)
	pinCPU(t, 0)
	for _, release := range kernels(t) {
		maps := aggMaps()
		for len(maps) > 0 {
			n := min(10, len(maps))
			testAggs(t, release, maps[:n])
			maps = maps[n:]
		}
	}
}

func testAggs(t *testing.T, release string, maps []*ir.Map) {
	p := &ir.Program{Name: "aggs", IncludeSelf: true, Actions: []ir.Action{{Target: probe.RawTracepoint{Name: "sys_enter"}}}}
	for _, m := range maps {
		s := &ir.Stmt{Op: ir.StmtAgg, Map: m, Key: keyFor(m.Key), X: &ir.Expr{Op: ir.OpArg, Int: 0}}
		if m.Agg == ir.AggCount {
			s.X = nil
		}
		if m.Agg == ir.AggSeries {
			s.Time = &ir.Expr{Op: ir.OpArg, Int: 1}
		}
		p.Actions[0].Body = append(p.Actions[0].Body, s)
	}
	plan := rawPlan(release, runtime.GOARCH, argTypes[0], argTypes[1])
	spec, err := bpf.Compile(p, plan)
	if err != nil {
		t.Fatal(err)
	}
	coll := loadSpec(t, spec)
	in := interpret(t, p, plan)
	m := &interp.Machine{Comm: testComm}
	r := rand.New(rand.NewPCG(1, 2))
	g := &randProg{r: r}
	for range testenv.Times(300, 100) {
		x, key := uint64(g.number()), uint64(r.IntN(6))
		if r.IntN(2) == 0 {
			x = uint64(r.IntN(2000) - 200)
		}
		m.Context = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, x), key)
		in.run(t, m)
		runRaw(t, coll.Programs["p0"], x, key)
	}
	for _, am := range maps {
		compareTable(t, release, am, coll.Maps[am.Name], m.Maps[am])
	}
}

// compareTable compares a per-CPU map, on CPU 0, with the interpreter's.
func compareTable(t *testing.T, release string, m *ir.Map, em *ebpf.Map, want map[string][]byte) {
	t.Helper()
	n := 0
	var key []byte
	var values [][]byte
	it := em.Iterate()
	for it.Next(&key, &values) {
		w := want[string(key)]
		if w == nil {
			w = make([]byte, len(values[0]))
		} else {
			n++
		}
		if got := values[0][:len(w)]; !bytes.Equal(got, w) {
			t.Errorf("%s, %s: key %x is %x in the kernel, %x in the interpreter", release, m, key, got, w)
		}
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	if n != len(want) {
		t.Errorf("%s, %s: %d keys in the kernel, %d in the interpreter", release, m, n, len(want))
	}
}

// pinCPU keeps the current thread on one CPU.
func pinCPU(t testing.TB, cpu int) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	var old, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		t.Fatal(err)
	}
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.SchedSetaffinity(0, &old) })
}
