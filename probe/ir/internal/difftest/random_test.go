package difftest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
)

// randProg generates random well-typed expressions.
type randProg struct {
	r     *rand.Rand
	args  []ir.Type  // of the probe
	vars  []*ir.Var  // set so far
	text  bool       // text and memory may be used
	get   *ir.Map    // a map to read, nil for none
	turns int        // the most turns of a loop
	store *ir.Map    // storage of the thread, nil for none
	lists bool       // bytes and their elements may be used
	cpus  *ir.Map    // a per-CPU map to read for any CPU, nil for none
	known []*ir.Expr // used in place of arguments, nil for those of args

	// apart, if not nil, draws what programs had not at first, so that seeds keep their
	// programs but for that.
	apart *rand.Rand
}

// argTypes are the types of the arguments of random programs.
var argTypes = []btf.Type{
	&btf.Int{Name: "long long", Size: 8, Encoding: btf.Signed},
	&btf.Int{Name: "unsigned long", Size: 8},
	&btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
	&btf.Int{Name: "unsigned int", Size: 4},
	&btf.Int{Name: "short", Size: 2, Encoding: btf.Signed},
	&btf.Int{Name: "unsigned short", Size: 2},
	&btf.Int{Name: "signed char", Size: 1, Encoding: btf.Signed},
	&btf.Int{Name: "unsigned char", Size: 1},
}

var intTypes = []ir.Type{
	ir.IntType(1, false), ir.IntType(1, true), ir.IntType(2, false), ir.IntType(2, true),
	ir.IntType(4, false), ir.IntType(4, true), ir.IntType(8, false), ir.IntType(8, true),
}

func (p *randProg) intType() ir.Type { return intTypes[p.r.IntN(len(intTypes))] }

// interesting are values that are likely to break arithmetic.
var interesting = []int64{
	0, 1, -1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, -128, -129, 32767, 32768, 65535, 65536,
	1<<31 - 1, 1 << 31, -1 << 31, 1<<32 - 1, 1 << 32, 1<<62 + 1, 1<<63 - 1, -1 << 63, 1000, 10,
}

func (p *randProg) number() int64 {
	if p.r.IntN(3) == 0 {
		return int64(p.r.Uint64())
	}
	return interesting[p.r.IntN(len(interesting))]
}

// typed is a random integer expression of type t.
func (p *randProg) typed(t ir.Type, depth int) *ir.Expr {
	return &ir.Expr{Op: ir.OpCast, Type: t, Args: []*ir.Expr{p.integer(depth)}}
}

// integer is a random integer expression.
func (p *randProg) integer(depth int) *ir.Expr {
	if depth <= 0 || p.r.IntN(8) == 0 {
		return p.leaf()
	}
	if p.cpus != nil && p.r.IntN(8) == 0 {
		return withMap(ir.NewExpr(ir.OpMapCPU, p.perCPUKey(), p.whichCPU(depth-1)), p.cpus)
	}
	switch p.r.IntN(15) {
	case 0, 1, 2, 3, 4:
		op := []ir.Op{ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpDiv, ir.OpMod, ir.OpAnd, ir.OpOr, ir.OpXor, ir.OpShl, ir.OpShr}[p.r.IntN(10)]
		return &ir.Expr{Op: op, Type: p.intType(), Args: []*ir.Expr{p.integer(depth - 1), p.integer(depth - 1)}}
	case 5:
		op := []ir.Op{ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpDiv, ir.OpMod, ir.OpAnd, ir.OpOr, ir.OpXor}[p.r.IntN(8)]
		return ir.NewExpr(op, p.integer(depth-1), p.integer(depth-1))
	case 6:
		op := []ir.Op{ir.OpNeg, ir.OpNot}[p.r.IntN(2)]
		return &ir.Expr{Op: op, Type: p.intType(), Args: []*ir.Expr{p.integer(depth - 1)}}
	case 7, 8:
		return p.typed(p.intType(), depth-1)
	case 9:
		return &ir.Expr{Op: ir.OpBswap, Args: []*ir.Expr{p.typed(p.intType(), depth-1)}}
	case 10:
		return &ir.Expr{Op: ir.OpCond, Type: p.intType(), Args: []*ir.Expr{p.boolean(depth - 1), p.integer(depth - 1), p.integer(depth - 1)}}
	case 11:
		if p.get != nil {
			return withMap(ir.NewExpr(ir.OpMapGet, p.typed(ir.IntType(4, false), depth-1)), p.get)
		}
		fallthrough
	case 12:
		if p.text {
			return p.textNumber(depth - 1)
		}
		fallthrough
	case 13:
		if p.store != nil && p.r.IntN(2) == 0 {
			return withMap((&ir.Expr{Op: ir.OpMapGet}), p.store)
		}
		if !p.lists {
			return p.boolean(depth - 1)
		}
		t := p.intType()
		bytes := &ir.Expr{Op: ir.OpCast, Type: ir.BytesType(t.Size), Args: []*ir.Expr{p.typed(t, depth-1)}}
		if p.r.IntN(2) == 0 {
			return ir.NewExpr(ir.OpIndex, bytes, ir.NewConst(int64(p.r.IntN(t.Size))))
		}
		if p.r.IntN(2) == 0 {
			return ir.NewExpr(ir.OpIndex, bytes, p.index(9))
		}
		return &ir.Expr{Op: ir.OpCast, Type: ir.IntType(t.Size, p.r.IntN(2) == 0), Args: []*ir.Expr{bytes}}
	default:
		return p.boolean(depth - 1)
	}
}

func withMap(e *ir.Expr, m *ir.Map) *ir.Expr {
	e.Map = m
	return e
}

// perCPUKey returns a key of the per-CPU map, mostly of an existing entry. whichCPU returns a
// CPU: CPU 0, on which the test runs, one that never ran it, or one that does not exist.
func (p *randProg) perCPUKey() *ir.Expr {
	return ir.NewExpr(ir.OpMod, p.typed(ir.IntType(4, false), 1), ir.NewConst(18))
}

func (p *randProg) whichCPU(depth int) *ir.Expr {
	switch p.r.IntN(4) {
	case 0:
		return p.typed(ir.IntType(4, false), depth)
	case 1:
		return ir.NewConst(1)
	case 2:
		return ir.NewConst(0)
	}
	return ir.NewBuiltin("cpu")
}

func (p *randProg) leaf() *ir.Expr {
	switch n := p.r.IntN(6); {
	case n == 0:
		return &ir.Expr{Op: ir.OpConst, Type: p.intType(), Int: p.number()}
	case n == 1:
		return ir.NewConst(p.number())
	case n == 2 && len(p.vars) > 0:
		return ir.NewVar(p.vars[p.r.IntN(len(p.vars))])
	}
	return p.arg()
}

// arg returns an argument, or another expression that the test knows.
func (p *randProg) arg() *ir.Expr {
	if p.known != nil {
		return p.known[p.r.IntN(len(p.known))]
	}
	return &ir.Expr{Op: ir.OpArg, Int: int64(p.r.IntN(len(p.args)))}
}

// boolean is a random condition.
func (p *randProg) boolean(depth int) *ir.Expr {
	if depth <= 0 {
		return p.compare(ir.OpNe, p.leaf(), p.leaf())
	}
	switch p.r.IntN(9) {
	case 0:
		return ir.NewExpr(ir.OpLAnd, p.boolean(depth-1), p.boolean(depth-1))
	case 1:
		return ir.NewExpr(ir.OpLOr, p.boolean(depth-1), p.boolean(depth-1))
	case 2:
		return ir.NewExpr(ir.OpLNot, p.boolean(depth-1))
	case 3:
		if p.text {
			return p.textTest(depth - 1)
		}
	case 4:
		if p.get != nil {
			return withMap(ir.NewExpr(ir.OpMapHas, p.typed(ir.IntType(4, false), depth-1)), p.get)
		}
	case 5:
		t := p.intType()
		op := []ir.Op{ir.OpEq, ir.OpNe, ir.OpLt, ir.OpLe, ir.OpGt, ir.OpGe}[p.r.IntN(6)]
		return ir.NewExpr(op, p.typed(t, depth-1), p.typed(t, depth-1))
	}
	op := []ir.Op{ir.OpEq, ir.OpNe, ir.OpLt, ir.OpLe, ir.OpGt, ir.OpGe}[p.r.IntN(6)]
	return p.compare(op, p.integer(depth-1), p.integer(depth-1))
}

// compare returns a comparison. If an operand may be constant, both have the same type:
// otherwise the checker refuses a constant that the other's type does not have.
func (p *randProg) compare(op ir.Op, a, b *ir.Expr) *ir.Expr {
	if mayBeConst(a) || mayBeConst(b) {
		t := p.intType()
		a = &ir.Expr{Op: ir.OpCast, Type: t, Args: []*ir.Expr{a}}
		b = &ir.Expr{Op: ir.OpCast, Type: t, Args: []*ir.Expr{b}}
	}
	return ir.NewExpr(op, a, b)
}

// mayBeConst reports whether the checker may find an expression to be constant, as it does the
// functions of constant texts and some builtins.
func mayBeConst(e *ir.Expr) bool {
	switch e.Op {
	case ir.OpVar, ir.OpArg, ir.OpRet, ir.OpMapGet, ir.OpMapCPU:
		return false
	case ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpDiv, ir.OpMod, ir.OpAnd, ir.OpOr, ir.OpXor, ir.OpShl,
		ir.OpShr, ir.OpNeg, ir.OpNot, ir.OpCast, ir.OpBswap:
		return !slices.ContainsFunc(e.Args, func(a *ir.Expr) bool { return !mayBeConst(a) })
	}
	return true
}

var words = []string{"", "a", "ab", "abc", "abcabc", "comm-of-test-x", "aab", "b", "test", "0123456789abcdefghij"}

func (p *randProg) word() string { return words[p.r.IntN(len(words))] }

// str is random text: the current comm, a constant, or a choice.
func (p *randProg) str(depth int) *ir.Expr {
	switch p.r.IntN(4) {
	case 0:
		return ir.NewBuiltin("comm")
	case 1:
		if depth > 0 {
			return ir.NewExpr(ir.OpCond, p.boolean(depth-1), p.str(depth-1), p.str(depth-1))
		}
	case 2:
		return &ir.Expr{Op: ir.OpCast, Type: ir.StringType(4 + p.r.IntN(30)), Args: []*ir.Expr{ir.NewBuiltin("comm")}}
	}
	return ir.NewString(p.word())
}

// index returns an index below n that is not constant: a constant one would have to be in
// range.
func (p *randProg) index(n int64) *ir.Expr {
	return ir.NewExpr(ir.OpMod, &ir.Expr{Op: ir.OpCast, Type: ir.IntType(4, false), Args: []*ir.Expr{p.arg()}}, ir.NewConst(n))
}

// indexed returns statements that store an element of a value: inside or beyond it, by a
// constant that the optimiser puts in place of a variable, or by an index that is computed of
// such a variable and an argument.
func (p *randProg) indexed(out *ir.Map, slot *ir.Expr) []*ir.Stmt {
	t := p.intType()
	bytes := &ir.Expr{Op: ir.OpCast, Type: ir.BytesType(t.Size), Args: []*ir.Expr{
		{Op: ir.OpCast, Type: t, Args: []*ir.Expr{p.arg()}},
	}}
	v := &ir.Var{Name: "at"}
	at := []int64{0, int64(t.Size) - 1, int64(t.Size), int64(t.Size) + 1, 10, -1, 1 << 32, 1<<63 - 1}[p.apart.IntN(8)]
	var index *ir.Expr = ir.NewVar(v)
	if p.apart.IntN(3) == 0 {
		index = ir.NewExpr(ir.OpAnd, index, p.arg())
	}
	return []*ir.Stmt{
		{Op: ir.StmtLet, Var: v, X: &ir.Expr{Op: ir.OpConst, Type: []ir.Type{ir.Uint64Type(), ir.Int64Type()}[p.apart.IntN(2)], Int: at}},
		{Op: ir.StmtSet, Map: out, Key: slot, X: ir.NewExpr(ir.OpIndex, bytes, index)},
	}
}

// textNumber returns a number computed from text.
func (p *randProg) textNumber(depth int) *ir.Expr {
	switch p.r.IntN(4) {
	case 0:
		return &ir.Expr{Op: ir.OpIndexOf, Str: p.word(), Args: []*ir.Expr{p.str(depth)}}
	case 1:
		a := &ir.Expr{Op: ir.OpCast, Type: ir.StringType(16), Args: []*ir.Expr{ir.NewBuiltin("comm")}}
		b := &ir.Expr{Op: ir.OpCast, Type: ir.StringType(24), Args: []*ir.Expr{ir.NewString(p.word())}}
		return &ir.Expr{Op: ir.OpMemcmp, Int: int64(1 + p.r.IntN(16)), Args: []*ir.Expr{a, b}}
	case 2:
		return ir.NewExpr(ir.OpIndex, &ir.Expr{Op: ir.OpCast, Type: ir.StringType(12), Args: []*ir.Expr{ir.NewBuiltin("comm")}}, p.index(14))
	}
	return ir.NewExpr(ir.OpLen, p.str(depth))
}

var patterns = []string{"*", "a*", "*a*", "comm*x", "?*?", "[a-c]*", "[!a-c]*", "*-*-*", "", "ab?", "*0123*"}

func (p *randProg) textTest(depth int) *ir.Expr {
	switch p.r.IntN(6) {
	case 4:
		return &ir.Expr{Op: ir.OpGlob, Str: patterns[p.r.IntN(len(patterns))], Args: []*ir.Expr{p.str(depth)}}
	case 5:
		return ir.NewExpr(ir.OpContains, p.str(0), p.str(0))
	case 0:
		return &ir.Expr{Op: ir.OpHasPrefix, Str: p.word(), Args: []*ir.Expr{p.str(depth)}}
	case 1:
		return &ir.Expr{Op: ir.OpContains, Str: p.word(), Args: []*ir.Expr{p.str(depth)}}
	case 2:
		return ir.NewExpr(ir.OpEq, &ir.Expr{Op: ir.OpStrncmp, Int: int64(1 + p.r.IntN(12)), Args: []*ir.Expr{p.str(depth), p.str(depth)}}, ir.NewConst(0))
	}
	return ir.NewExpr([]ir.Op{ir.OpEq, ir.OpNe}[p.r.IntN(2)], p.str(depth), p.str(depth))
}

// seedName names a seed in messages.
func seedName(seed uint64) string { return fmt.Sprintf("seed %d", seed) }

// rawPlan returns a plan for a raw tracepoint with the given argument types.
// BPF_PROG_TEST_RUN passes the arguments.
func rawPlan(kernel, arch string, args ...btf.Type) *probe.Plan {
	pp := probe.ProgramPlan{
		Name: "p0", Type: ebpf.RawTracepoint, AttachTo: "sys_enter",
		Context: probe.ContextRawArgs, Method: probe.MethodRun,
		Sites: []probe.Site{{Target: probe.RawTracepoint{Name: "sys_enter"}, Cookie: probe.MakeCookie(0, 0, 0)}},
	}
	for i, t := range args {
		size := 8
		pp.Args = append(pp.Args, probe.Arg{
			Name: "a" + string(rune('0'+i)), Type: t,
			Loc: probe.Location{Kind: probe.LocationContext, Offset: int64(8 * i), Size: size},
		})
	}
	return &probe.Plan{Arch: arch, Kernel: kernel, Programs: []probe.ProgramPlan{pp}}
}
