package check

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/loops"
)

// checkBlock checks statements for a program on a kernel.
func checkBlock(kernel string, form loops.Form, body []*ir.Stmt) (*Checked, error) {
	plan := &probe.Plan{Kernel: kernel, Programs: []probe.ProgramPlan{{Name: "p", Type: ebpf.TracePoint}}}
	return Check(&ir.Program{Loops: form, Actions: []ir.Action{{Body: body}}}, plan, 0, nil)
}

func let(v *ir.Var, x *ir.Expr) *ir.Stmt { return &ir.Stmt{Op: ir.StmtLet, Var: v, X: x} }

func use(v *ir.Var) *ir.Expr { return &ir.Expr{Op: ir.OpVar, Var: v} }

func evalOf(x *ir.Expr) *ir.Stmt { return &ir.Stmt{Op: ir.StmtEval, X: x} }

// turns is a loop of so many turns.
func turns(n int64, body ...*ir.Stmt) *ir.Stmt {
	return &ir.Stmt{Op: ir.StmtLoop, X: number64(n), Body: body}
}

func onMap(o ir.StmtOp, m *ir.Map, key, x *ir.Expr) *ir.Stmt {
	return &ir.Stmt{Op: o, Map: m, Key: key, X: x}
}

var (
	counts   = &ir.Map{Name: "counts", Key: ir.IntType(4, false), Value: ir.Uint64Type()}
	total    = &ir.Map{Name: "total", Value: ir.Uint64Type()}
	texts    = &ir.Map{Name: "texts", Key: ir.StringType(16), Value: ir.StringType(16)}
	slots    = &ir.Map{Name: "slots", Kind: ir.MapArray, Key: ir.IntType(4, false), Value: ir.Uint64Type(), Entries: 4}
	each     = &ir.Map{Name: "each", Kind: ir.MapPerCPUHash, Key: ir.IntType(4, false), Value: ir.Uint64Type()}
	summed   = &ir.Map{Name: "summed", Key: ir.IntType(4, false), Agg: ir.AggSum}
	counted  = &ir.Map{Name: "counted", Key: ir.IntType(4, false), Agg: ir.AggCount}
	hists    = &ir.Map{Name: "hists", Key: ir.IntType(4, false), Agg: ir.AggHist}
	ring     = &ir.Map{Name: "ring", Kind: ir.MapRing, Value: ir.TupleType(ir.Field{Type: ir.IntType(4, false)})}
	smallMap = &ir.Map{Name: "small", Key: ir.IntType(4, false), Value: ir.IntType(2, false)}
)

// TestStatements: the types of variables, how long they are set, and what is refused.
func TestStatements(t *testing.T) {
	a, b := &ir.Var{Name: "a"}, &ir.Var{Name: "b", Type: ir.IntType(1, false)}
	text := &ir.Var{Name: "text"}
	key, value := &ir.Var{Name: "key"}, &ir.Var{Name: "value"}
	one := number64(1)
	for _, c := range []struct {
		what string
		body []*ir.Stmt
		vars string // the variables with their types
		err  string
	}{
		{"the first value decides a type", []*ir.Stmt{let(a, constant(ir.IntType(4, false), 1)), let(a, number64(7))}, "a u32", ""},
		{"a number has 64 bits", []*ir.Stmt{let(a, number64(7))}, "a s64", ""},
		{"a type of its own", []*ir.Stmt{let(b, number64(300))}, "b u8", ""},
		{"converted", []*ir.Stmt{let(a, byteConst()), let(a, constant(ir.Uint64Type(), 300))}, "a u8", ""},
		{"text stays as long", []*ir.Stmt{let(text, str("abcd")), let(text, str("ab"))}, "text str[5]", ""},
		{"and not longer", []*ir.Stmt{let(text, str("ab")), let(text, str("abcd"))}, "", "does not fit str[3]"},
		{"number then text", []*ir.Stmt{let(a, byteConst()), let(a, str("x"))}, "", "is str[2], not u8"},
		{"used before it is set", []*ir.Stmt{evalOf(op(ir.OpAdd, use(a), one))}, "", "used before it is set"},
		{
			"set in a block only",
			[]*ir.Stmt{{Op: ir.StmtIf, X: notConstant(), Body: []*ir.Stmt{let(a, one)}}, evalOf(use(a))},
			"", "used before it is set",
		},
		{
			"set before a block",
			[]*ir.Stmt{let(a, one), {Op: ir.StmtIf, X: notConstant(), Body: []*ir.Stmt{let(a, byteConst())}}, evalOf(use(a))},
			"a s64", "",
		},
		{
			"of another type in each block",
			[]*ir.Stmt{{Op: ir.StmtIf, X: notConstant(), Body: []*ir.Stmt{let(a, one)}, Else: []*ir.Stmt{let(a, str("x"))}}},
			"a s64, a str[2]", "",
		},
		{"no variable", []*ir.Stmt{{Op: ir.StmtLet, X: one}}, "", "missing variable"},
		{"no statement", []*ir.Stmt{nil}, "", "missing statement"},
		{"condition of text", []*ir.Stmt{{Op: ir.StmtIf, X: str("x")}}, "", "not a condition"},

		{"loop", []*ir.Stmt{turns(3, evalOf(one), &ir.Stmt{Op: ir.StmtBreak})}, "i u32", ""},
		{"number of a turn", []*ir.Stmt{{Op: ir.StmtLoop, X: number64(3), Var: a, Body: []*ir.Stmt{evalOf(use(a))}}}, "a u32", ""},
		{"after the loop", []*ir.Stmt{{Op: ir.StmtLoop, X: number64(3), Var: a}, evalOf(use(a))}, "", "used before it is set"},
		{"break outside", []*ir.Stmt{{Op: ir.StmtBreak}}, "", "outside of a loop"},
		{"continue after", []*ir.Stmt{turns(1), {Op: ir.StmtContinue}}, "", "outside of a loop"},
		{"count without a bound", []*ir.Stmt{{Op: ir.StmtLoop, X: notConstant()}}, "", "needs Max"},
		{"too many turns", []*ir.Stmt{turns(maxLoop + 1)}, "", "the limit is 8388608"},
		{"text as a count", []*ir.Stmt{{Op: ir.StmtLoop, X: str("x"), Max: 3}}, "", "not a number"},

		{"store", []*ir.Stmt{onMap(ir.StmtSet, counts, one, byteConst())}, "", ""},
		{"store without a key", []*ir.Stmt{onMap(ir.StmtSet, total, nil, one)}, "", ""},
		{"a key that is missing", []*ir.Stmt{onMap(ir.StmtSet, counts, nil, one)}, "", "needs a key of u32"},
		{"a key too many", []*ir.Stmt{onMap(ir.StmtSet, total, one, one)}, "", "has no keys"},
		{"text in place of a number", []*ir.Stmt{onMap(ir.StmtSet, counts, one, str("x"))}, "", "value of counts"},
		{"number in place of text", []*ir.Stmt{onMap(ir.StmtSet, texts, one, str("x"))}, "", "key of texts"},
		{"text that is too long", []*ir.Stmt{onMap(ir.StmtSet, texts, str("k"), str(strings.Repeat("x", 16)))}, "", "does not fit"},
		{"no map", []*ir.Stmt{onMap(ir.StmtSet, nil, nil, one)}, "", "missing map"},
		{"add", []*ir.Stmt{onMap(ir.StmtAdd, counts, one, one)}, "", ""},
		{"add to 16 bits", []*ir.Stmt{onMap(ir.StmtAdd, smallMap, one, one)}, "", "only 32 and 64-bit integers"},
		{"delete", []*ir.Stmt{onMap(ir.StmtDelete, counts, one, nil)}, "", ""},
		{"delete of an array", []*ir.Stmt{onMap(ir.StmtDelete, slots, one, nil)}, "", "cannot be deleted"},
		{
			"find",
			[]*ir.Stmt{{Op: ir.StmtFind, Map: counts, Key: one, Var: a, Body: []*ir.Stmt{evalOf(use(a))}}},
			"a u64", "",
		},
		{
			"found where it is not",
			[]*ir.Stmt{{Op: ir.StmtFind, Map: counts, Key: one, Var: a, Else: []*ir.Stmt{evalOf(use(a))}}},
			"", "used before it is set",
		},
		{"take from an array", []*ir.Stmt{{Op: ir.StmtFind, Map: slots, Key: one, Var: a, Delete: true}}, "", "cannot be deleted"},

		{"count", []*ir.Stmt{onMap(ir.StmtAgg, counted, one, nil)}, "", ""},
		{"count of a value", []*ir.Stmt{onMap(ir.StmtAgg, counted, one, one)}, "", "count takes no value"},
		{"sum of nothing", []*ir.Stmt{onMap(ir.StmtAgg, summed, one, nil)}, "", "sum needs a value"},
		{"sum of text", []*ir.Stmt{onMap(ir.StmtAgg, summed, one, str("x"))}, "", "not a number"},
		{"sum with a time", []*ir.Stmt{{Op: ir.StmtAgg, Map: summed, Key: one, X: one, Time: one}}, "", "sum has no times"},
		{"aggregation of a plain map", []*ir.Stmt{onMap(ir.StmtAgg, counts, one, one)}, "", "does not aggregate"},
		{"store to an aggregation", []*ir.Stmt{onMap(ir.StmtSet, summed, one, one)}, "", "aggregates (sum)"},
		{"delete of a histogram", []*ir.Stmt{onMap(ir.StmtDelete, hists, one, nil)}, "", "several entries for a key"},

		{
			"over a map",
			[]*ir.Stmt{{Op: ir.StmtForEach, Map: counts, Var: key, Var2: value, Body: []*ir.Stmt{evalOf(use(value))}}},
			"key u32, value u64", "",
		},
		{"over the keys of each CPU", []*ir.Stmt{{Op: ir.StmtForEach, Map: each, Var: key}}, "key u32", ""},
		{"over the values of each CPU", []*ir.Stmt{{Op: ir.StmtForEach, Map: each, Var: key, Var2: value}}, "", "has a value on each CPU"},
		{"over a ring", []*ir.Stmt{{Op: ir.StmtForEach, Map: ring}}, "", "is a buffer"},

		{"event", []*ir.Stmt{{Op: ir.StmtEmit, Map: ring, X: op(ir.OpTuple, one)}}, "", ""},
		{"event of text", []*ir.Stmt{{Op: ir.StmtEmit, Map: ring, X: op(ir.OpTuple, str("x"))}}, "", "event of ring"},
		{"event to a map", []*ir.Stmt{{Op: ir.StmtEmit, Map: counts, X: one}}, "", "neither a ring buffer nor a perf buffer"},
		{"trace", []*ir.Stmt{{Op: ir.StmtTrace, Text: "%d", X: op(ir.OpTuple, one)}}, "", ""},
		{"trace of four", []*ir.Stmt{{Op: ir.StmtTrace, Text: "%d", X: op(ir.OpTuple, one, one, one, one)}}, "", "at most three"},
		{"trace of nothing", []*ir.Stmt{{Op: ir.StmtTrace}}, "", "want 1 to 1023"},
		{"signal", []*ir.Stmt{{Op: ir.StmtSignal, X: number64(9)}}, "", ""},
		{"override at a tracepoint", []*ir.Stmt{{Op: ir.StmtOverride, X: one}}, "", "cannot override a return value"},
		{"skip outside of a session", []*ir.Stmt{{Op: ir.StmtSkip}}, "", "session"},
		{"no such", []*ir.Stmt{{Op: 200}}, "", "no such statement"},
	} {
		got, err := checkBlock("6.12", loops.Best, c.body)
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want an error with %q", c.what, err, c.err)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		var vars []string
		for _, v := range got.Vars {
			vars = append(vars, v.Name+" "+v.Type.String())
		}
		if s := strings.Join(vars, ", "); s != c.vars {
			t.Errorf("%s: variables %q, want %q", c.what, s, c.vars)
		}
	}
}

// byteConst is a constant of 8 bits.
func byteConst() *ir.Expr { return constant(ir.IntType(1, false), 5) }

// notConstant is a number that is not constant.
func notConstant() *ir.Expr {
	return &ir.Expr{Op: ir.OpMapGet, Map: slots, Args: []*ir.Expr{number64(0)}}
}

// TestLoopForms: which loops a kernel takes.
func TestLoopForms(t *testing.T) {
	for _, c := range []struct {
		kernel string
		form   loops.Form
		turns  int64
		err    string
	}{
		{"5.10", loops.Best, maxPlain, ""},
		{"5.10", loops.Best, maxPlain + 1, "loop of more than 4096 turns"},
		{"5.17", loops.Best, maxLoop, ""},
		{"5.17", loops.Plain, maxPlain + 1, "plain loop of 4097 iterations"},
		{"5.15", loops.Helper, 3, "Linux 5.15 is too old"},
		{"5.17", loops.Helper, 3, ""},
		{"6.3", loops.Iter, 3, "6.3 is too old"},
		{"6.4", loops.Iter, 3, ""},
		{"6.8", loops.MayGoto, 3, "6.8 is too old"},
		{"6.9", loops.MayGoto, 3, ""},
	} {
		_, err := checkBlock(c.kernel, c.form, []*ir.Stmt{turns(c.turns)})
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s on %s, %d turns: %v; want %q", c.form, c.kernel, c.turns, err, c.err)
		}
	}
}
