package action

import (
	"fmt"
	"math/rand/v2"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
)

// randProg generates random well-typed expressions.
type randProg struct {
	r     *rand.Rand
	args  []Type  // of the probe
	vars  []*Var  // set so far
	text  bool    // text and memory may be used
	get   *Map    // a map to read, nil for none
	turns int     // the most turns of a loop
	store *Map    // storage of the thread, nil for none
	lists bool    // bytes and their elements may be used
	cpus  *Map    // a per-CPU map to read of any CPU, nil for none
	known []*Expr // what stands in place of arguments, nil for those of args
}

// argTypes are the types that arguments of random programs have.
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

var intTypes = []Type{
	IntType(1, false), IntType(1, true), IntType(2, false), IntType(2, true),
	IntType(4, false), IntType(4, true), IntType(8, false), IntType(8, true),
}

func (p *randProg) intType() Type { return intTypes[p.r.IntN(len(intTypes))] }

// interesting are values at which arithmetic goes wrong.
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
func (p *randProg) typed(t Type, depth int) *Expr {
	return &Expr{Op: OpCast, Type: t, Args: []*Expr{p.integer(depth)}}
}

// integer is a random integer expression.
func (p *randProg) integer(depth int) *Expr {
	if depth <= 0 || p.r.IntN(8) == 0 {
		return p.leaf()
	}
	if p.cpus != nil && p.r.IntN(8) == 0 {
		return NewExpr(OpMapCPU, p.perCPUKey(), p.whichCPU(depth-1)).withMap(p.cpus)
	}
	switch p.r.IntN(15) {
	case 0, 1, 2, 3, 4:
		op := []Op{OpAdd, OpSub, OpMul, OpDiv, OpMod, OpAnd, OpOr, OpXor, OpShl, OpShr}[p.r.IntN(10)]
		return &Expr{Op: op, Type: p.intType(), Args: []*Expr{p.integer(depth - 1), p.integer(depth - 1)}}
	case 5:
		op := []Op{OpAdd, OpSub, OpMul, OpDiv, OpMod, OpAnd, OpOr, OpXor}[p.r.IntN(8)]
		return NewExpr(op, p.integer(depth-1), p.integer(depth-1))
	case 6:
		op := []Op{OpNeg, OpNot}[p.r.IntN(2)]
		return &Expr{Op: op, Type: p.intType(), Args: []*Expr{p.integer(depth - 1)}}
	case 7, 8:
		return p.typed(p.intType(), depth-1)
	case 9:
		return &Expr{Op: OpBswap, Args: []*Expr{p.typed(p.intType(), depth-1)}}
	case 10:
		return &Expr{Op: OpCond, Type: p.intType(), Args: []*Expr{p.boolean(depth - 1), p.integer(depth - 1), p.integer(depth - 1)}}
	case 11:
		if p.get != nil {
			return NewExpr(OpMapGet, p.typed(u32, depth-1)).withMap(p.get)
		}
		fallthrough
	case 12:
		if p.text {
			return p.textNumber(depth - 1)
		}
		fallthrough
	case 13:
		if p.store != nil && p.r.IntN(2) == 0 {
			return (&Expr{Op: OpMapGet}).withMap(p.store)
		}
		if !p.lists {
			return p.boolean(depth - 1)
		}
		t := p.intType()
		bytes := &Expr{Op: OpCast, Type: BytesType(t.Size), Args: []*Expr{p.typed(t, depth-1)}}
		if p.r.IntN(2) == 0 {
			return NewExpr(OpIndex, bytes, NewConst(int64(p.r.IntN(t.Size))))
		}
		if p.r.IntN(2) == 0 {
			return NewExpr(OpIndex, bytes, p.index(9))
		}
		return &Expr{Op: OpCast, Type: IntType(t.Size, p.r.IntN(2) == 0), Args: []*Expr{bytes}}
	default:
		return p.boolean(depth - 1)
	}
}

func (e *Expr) withMap(m *Map) *Expr {
	e.Map = m
	return e
}

// perCPUKey is a key of the per-CPU map, most of them there, and whichCPU a CPU:
// the one that the test runs on, which is 0, one that never ran it, or one that is
// not there.
func (p *randProg) perCPUKey() *Expr { return NewExpr(OpMod, p.typed(u32, 1), NewConst(18)) }

func (p *randProg) whichCPU(depth int) *Expr {
	switch p.r.IntN(4) {
	case 0:
		return p.typed(u32, depth)
	case 1:
		return NewConst(1)
	case 2:
		return NewConst(0)
	}
	return NewBuiltin("cpu")
}

func (p *randProg) leaf() *Expr {
	switch n := p.r.IntN(6); {
	case n == 0:
		return &Expr{Op: OpConst, Type: p.intType(), Int: p.number()}
	case n == 1:
		return NewConst(p.number())
	case n == 2 && len(p.vars) > 0:
		return NewVar(p.vars[p.r.IntN(len(p.vars))])
	}
	return p.arg()
}

// arg is an argument, or something else that the test knows.
func (p *randProg) arg() *Expr {
	if p.known != nil {
		return p.known[p.r.IntN(len(p.known))]
	}
	return &Expr{Op: OpArg, Int: int64(p.r.IntN(len(p.args)))}
}

// boolean is a random condition.
func (p *randProg) boolean(depth int) *Expr {
	if depth <= 0 {
		return NewExpr(OpNe, p.leaf(), p.leaf())
	}
	switch p.r.IntN(9) {
	case 0:
		return NewExpr(OpLAnd, p.boolean(depth-1), p.boolean(depth-1))
	case 1:
		return NewExpr(OpLOr, p.boolean(depth-1), p.boolean(depth-1))
	case 2:
		return NewExpr(OpLNot, p.boolean(depth-1))
	case 3:
		if p.text {
			return p.textTest(depth - 1)
		}
	case 4:
		if p.get != nil {
			return NewExpr(OpMapHas, p.typed(u32, depth-1)).withMap(p.get)
		}
	case 5:
		t := p.intType()
		op := []Op{OpEq, OpNe, OpLt, OpLe, OpGt, OpGe}[p.r.IntN(6)]
		return NewExpr(op, p.typed(t, depth-1), p.typed(t, depth-1))
	}
	op := []Op{OpEq, OpNe, OpLt, OpLe, OpGt, OpGe}[p.r.IntN(6)]
	return NewExpr(op, p.integer(depth-1), p.integer(depth-1))
}

var words = []string{"", "a", "ab", "abc", "abcabc", "comm-of-test-x", "aab", "b", "test", "0123456789abcdefghij"}

func (p *randProg) word() string { return words[p.r.IntN(len(words))] }

// str is random text: the current comm, a constant, or a choice.
func (p *randProg) str(depth int) *Expr {
	switch p.r.IntN(4) {
	case 0:
		return NewBuiltin("comm")
	case 1:
		if depth > 0 {
			return NewExpr(OpCond, p.boolean(depth-1), p.str(depth-1), p.str(depth-1))
		}
	case 2:
		return &Expr{Op: OpCast, Type: StringType(4 + p.r.IntN(30)), Args: []*Expr{NewBuiltin("comm")}}
	}
	return NewString(p.word())
}

// index is an index below n that is not constant: a constant one must be right.
func (p *randProg) index(n int64) *Expr {
	return NewExpr(OpMod, &Expr{Op: OpCast, Type: u32, Args: []*Expr{p.arg()}}, NewConst(n))
}

// textNumber is a number that text gives.
func (p *randProg) textNumber(depth int) *Expr {
	switch p.r.IntN(4) {
	case 0:
		return &Expr{Op: OpIndexOf, Str: p.word(), Args: []*Expr{p.str(depth)}}
	case 1:
		a := &Expr{Op: OpCast, Type: StringType(16), Args: []*Expr{NewBuiltin("comm")}}
		b := &Expr{Op: OpCast, Type: StringType(24), Args: []*Expr{NewString(p.word())}}
		return &Expr{Op: OpMemcmp, Int: int64(1 + p.r.IntN(16)), Args: []*Expr{a, b}}
	case 2:
		return NewExpr(OpIndex, &Expr{Op: OpCast, Type: StringType(12), Args: []*Expr{NewBuiltin("comm")}}, p.index(14))
	}
	return NewExpr(OpLen, p.str(depth))
}

var patterns = []string{"*", "a*", "*a*", "comm*x", "?*?", "[a-c]*", "[!a-c]*", "*-*-*", "", "ab?", "*0123*"}

func (p *randProg) textTest(depth int) *Expr {
	switch p.r.IntN(6) {
	case 4:
		return &Expr{Op: OpGlob, Str: patterns[p.r.IntN(len(patterns))], Args: []*Expr{p.str(depth)}}
	case 5:
		return NewExpr(OpContains, p.str(0), p.str(0))
	case 0:
		return &Expr{Op: OpHasPrefix, Str: p.word(), Args: []*Expr{p.str(depth)}}
	case 1:
		return &Expr{Op: OpContains, Str: p.word(), Args: []*Expr{p.str(depth)}}
	case 2:
		return NewExpr(OpEq, &Expr{Op: OpStrncmp, Int: int64(1 + p.r.IntN(12)), Args: []*Expr{p.str(depth), p.str(depth)}}, NewConst(0))
	}
	return NewExpr([]Op{OpEq, OpNe}[p.r.IntN(2)], p.str(depth), p.str(depth))
}

// seedName names a seed in messages.
func seedName(seed uint64) string { return fmt.Sprintf("seed %d", seed) }

// rawPlan is a plan for a raw tracepoint with the given argument types, which
// BPF_PROG_TEST_RUN feeds.
func rawPlan(kernel, arch string, args ...btf.Type) *probe.Plan {
	pp := probe.Program{
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
	return &probe.Plan{Arch: arch, Kernel: kernel, Programs: []probe.Program{pp}}
}
