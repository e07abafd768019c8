package bpf_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// kinds is a program with a map of every kind that OpenTable reads, for the target's
// calls add(i, 1000, 7) with i from 0 to 22.
type kinds struct {
	program *ir.Program
	want    map[*ir.Map]string
}

func (k *kinds) add(want string, m *ir.Map, key, x *ir.Expr) {
	op := ir.StmtAgg
	if m.Agg == ir.AggNone {
		op = ir.StmtSet
	}
	k.want[m] = want
	body := &k.program.Actions[0].Body
	*body = append(*body, &ir.Stmt{Op: op, Map: m, Key: key, X: x})
}

func allKinds(target probe.Target) *kinds {
	k := &kinds{&ir.Program{Name: "kinds", Actions: []ir.Action{{Target: target}}}, map[*ir.Map]string{}}
	arg := &ir.Expr{Op: ir.OpCast, Type: ir.Int64Type(), Args: []*ir.Expr{{Op: ir.OpArg}}}
	below := ir.NewExpr(ir.OpSub, arg, ir.NewConst(10))
	comm, text := ir.NewBuiltin("comm"), ir.StringType(16)
	pair := ir.NewExpr(ir.OpTuple, comm, ir.NewExpr(ir.OpMod, arg, ir.NewConst(2)))
	pairType := ir.TupleType(ir.Field{Type: text}, ir.Field{Type: ir.Int64Type()})
	n := ir.IntType(4, false)

	k.add("target: bpf.Value 22", &ir.Map{Name: "hash", Key: text, Value: n}, comm, arg)
	k.add("(target, 0): bpf.Value target|(target, 1): bpf.Value target", &ir.Map{Name: "lru", Kind: ir.MapLRU, Key: pairType, Value: text}, pair, comm)
	k.add("7: bpf.Value -3", &ir.Map{Name: "percpu", Kind: ir.MapPerCPUHash, Key: n, Value: ir.IntType(2, true)}, &ir.Expr{Op: ir.OpArg, Int: 2}, ir.NewConst(-3))
	k.add("0: bpf.Value 0|1: bpf.Value 21|2: bpf.Value 22", &ir.Map{Name: "array", Kind: ir.MapArray, Key: n, Value: n, Entries: 3}, ir.NewExpr(ir.OpAdd, ir.NewConst(1), ir.NewExpr(ir.OpEq, ir.NewExpr(ir.OpMod, arg, ir.NewConst(2)), ir.NewConst(0))), arg)
	k.add(": bpf.Value 12", &ir.Map{Name: "cell", Kind: ir.MapArray, Value: ir.Int64Type()}, nil, below)
	k.add(": uint64 23", &ir.Map{Name: "count", Agg: ir.AggCount}, nil, nil)
	k.add("(target, 0): uint64 12|(target, 1): uint64 11", &ir.Map{Name: "counts", Agg: ir.AggCount, Key: pairType}, pair, nil)
	k.add("target: uint64 23", &ir.Map{Name: "flipped", Agg: ir.AggCount, Key: text, Flip: true}, comm, nil)
	k.add("target: int64 23", &ir.Map{Name: "sum", Agg: ir.AggSum, Key: text, Signed: true}, comm, below)
	k.add(": int64 -10", &ir.Map{Name: "least", Agg: ir.AggMin, Signed: true}, nil, below)
	k.add(": int64 12", &ir.Map{Name: "most", Agg: ir.AggMax, Signed: true}, nil, below)
	k.add(": uint64 0", &ir.Map{Name: "uleast", Agg: ir.AggMin}, nil, below)
	k.add(": uint64 18446744073709551615", &ir.Map{Name: "umost", Agg: ir.AggMax}, nil, below)
	k.add("target: bpf.Stat {23 23 0 0}", &ir.Map{Name: "avg", Agg: ir.AggAvg, Key: text, Signed: true}, comm, below)
	k.add(": bpf.Stat {23 23 -10 12}", &ir.Map{Name: "stats", Agg: ir.AggStats, Signed: true}, nil, below)
	k.add("(target, 0): []hist.Bucket [{0 1 1} {2 4 1} {4 8 2} {8 16 4} {16 32 4}]|(target, 1): []hist.Bucket [{1 2 1} {2 4 1} {4 8 2} {8 16 4} {16 32 3}]",
		&ir.Map{Name: "hist", Agg: ir.AggHist, Key: pairType}, pair, arg)
	k.add(": []hist.Bucket [{-9223372036854775808 0 10} {0 10 10} {10 20 3}]", &ir.Map{Name: "lhist", Agg: ir.AggLinear, Min: 0, Max: 20, Step: 10}, nil, below)
	day := int64(24 * 3600 * 1e9)
	k.add("target: []bpf.Point 22", &ir.Map{Name: "series", Agg: ir.AggSeries, Inner: ir.AggMax, Key: text, Interval: 100 * day, Slots: 2, Signed: true}, comm, arg)
	stack := ir.BytesType(8 * 30).WithFormat(ir.FormatUstack)
	k.add("stack: uint64 23", &ir.Map{Name: "stacks", Agg: ir.AggCount, Key: stack}, &ir.Expr{Op: ir.OpUstack, Int: 30}, nil)
	return k
}

// text formats a table's entries without what differs from run to run.
func text(entries []mapx.Entry[bpf.Value, any]) string {
	var lines []string
	for _, e := range entries {
		key, value := e.Key.String(), fmt.Sprintf("%T %v", e.Value, e.Value)
		if e.Key.Type.Format == ir.FormatUstack {
			key = fmt.Sprintf("%#x", e.Key.PCs())
			if pcs := e.Key.PCs(); len(pcs) > 0 && len(pcs) < 30 {
				key = "stack"
			}
		}
		switch v := e.Value.(type) {
		case []bpf.Point:
			value = fmt.Sprintf("%T %d", v, v[len(v)-1].Value)
		case []bpf.Value: // by CPU; the target ran on one of them
			i := slices.IndexFunc(v, func(v bpf.Value) bool { return v.Int() != 0 })
			value = fmt.Sprintf("%T %v", v[max(i, 0)], v[max(i, 0)])
		}
		lines = append(lines, key+": "+value)
	}
	slices.Sort(lines)
	return strings.Join(lines, "|")
}

// expect reads every map, and empties it at the end.
func (k *kinds) expect(t *testing.T, h bpf.Reader) {
	t.Helper()
	for m, want := range k.want {
		table, err := bpf.OpenTable(h, m)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		if s, err := table.Snapshot(); err != nil || text(s.Entries) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", m.Name, err, text(s.Entries), want)
		}
		if m.Kind == ir.MapArray || m.Agg != ir.AggNone && m.Keyless() && m.Agg != ir.AggSeries {
			continue // an array cannot be emptied
		}
		if s, err := table.ReadAndClear(); err != nil || text(s.Entries) != want {
			t.Errorf("%s, cleared: %v\n%s\nwant\n%s", m.Name, err, text(s.Entries), want)
		}
		if s, err := table.Snapshot(); err != nil || len(s.Entries) > 0 {
			t.Errorf("%s is not empty: %v, %v", m.Name, s.Entries, err)
		}
	}
}

// TestOpenTable: every kind of map is read by what its declaration says, live and from a
// recording.
func TestOpenTable(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.StartOwn(t)
	k := allKinds(probe.Uprobe{Path: w.Path(), Symbol: "add"})
	typed := func(*probe.Plan) error { return nil }
	liveAndRecorded(t, w, k.program, typed, filepath.Join(t.TempDir(), "recording"), func(h bpf.Reader) { k.expect(t, h) })
}
