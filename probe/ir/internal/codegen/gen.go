package codegen

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/loops"
	"github.com/borescope/borescope/stack/bpfwalk"
)

// These kernel versions decide what is generated.
var (
	atomicsSince = ir.Version{5, 12} // BPF_FETCH, XCHG, CMPXCHG (arm64 JIT: 5.18)
	arm64Atomics = ir.Version{5, 18}
	// bpf_get_current_comm does not pad the name with zeros on 6.1 (strscpy), but does on
	// 5.10 (strncpy) and on 6.12.
	commPadded = ir.Version{6, 12}
)

// limits bound one attempt at generating the program. A program that exceeds them is
// generated again with tighter ones, which move values to scratch memory.
type limits struct {
	inline int // values up to this size are kept in the frame, in bytes
	// noScratch is set if no value was larger than that.
	noScratch bool
	// varsAway moves variables to scratch memory too.
	varsAway bool
}

// function is the state of the function being generated.
type function struct {
	name               string
	fp, ctx, scr, evnt asm.Register
	callback           bool
	exit               string // label of the epilogue
	cold               []func()
	loops              []loopLabels
}

type loopLabels struct{ next, end string }

// space allocates bytes like a stack and records the peak.
type space struct{ used, peak int }

func (s *space) take(n, align int) int {
	s.used = (s.used + n + align - 1) / align * align
	s.peak = max(s.peak, s.used)
	return s.used
}

// home is the place of a variable: a register, or memory.
type home struct {
	reg   asm.Register
	inReg bool
	at    loc
}

// loc is a place in memory.
type loc struct {
	kind locKind
	off  int
}

type locKind uint8

const (
	inFrame   locKind = iota // off from the frame pointer
	inScratch                // off from the scratch area
	inEvent                  // off from the event's record
)

// regset is a set of registers.
type regset uint16

func (s regset) has(r asm.Register) bool { return s&(1<<r) != 0 }

// Generate returns the instructions of a checked action, and the size of the scratch area
// that they need, in bytes.
func Generate(p *ir.Program, plan *probe.Plan, c *check.Checked,
	lay *check.Layout,
) (asm.Instructions, int, error) {
	var err error
	for _, lim := range []limits{
		{inline: 64},
		{inline: 16},
		{inline: 8},
		{inline: 8, varsAway: true},
	} {
		g := newStatements(p, plan, c, lay, lim)
		var insns asm.Instructions
		if insns, err = g.program(); err == nil {
			if g.usesFn["scratch"] && g.aux.peak == 0 { // no value needed it
				lim.noScratch = true
				g = newStatements(p, plan, c, lay, lim)
				insns, err = g.program()
			}
			return insns, g.aux.peak, err
		} else if _, big := err.(*frameError); !big {
			return nil, 0, err
		}
	}
	return nil, 0, err
}

// frameError is the error for a frame that is larger than the kernel allows.
type frameError struct{ size, limit int }

func (e *frameError) Error() string {
	return fmt.Sprintf("program needs %d bytes of stack: the limit is %d (MAX_BPF_STACK)", e.size, e.limit)
}

// maxInsns bounds a program's instructions: a jump reaches 32767 instructions.
const maxInsns = 1 << 16

// maxFrame is MAX_BPF_STACK minus the room of the counting function and of one callback. The
// verifier counts at least leastFrame bytes for each function (check_max_stack_depth,
// kernel/bpf/verifier.c).
const (
	maxFrame   = 512 - 2*leastFrame
	leastFrame = 32
)

// frameLimit returns the room for the program's frame in the 512 bytes of stack. It shares
// them with the active callbacks and with the deepest function.
func (g *statements) frameLimit() int {
	deepest := leastFrame // the counting function
	if g.c.Walk != nil {
		deepest = bpfwalk.StackNeed
	}
	limit := min(maxFrame, 512-leastFrame*g.depth-deepest)
	if g.loops == loops.MayGoto {
		limit -= mayGotoStack
	}
	return limit
}

// program generates the main function and the functions that it calls.
func (g *statements) program() (asm.Instructions, error) {
	g.prepare()
	g.note = "probe " + g.c.Pp.Name
	g.prologue()
	g.block(g.c.Body)
	g.epilogue()
	g.flushCold()
	for len(g.subs) > 0 {
		sub := g.subs[0]
		g.subs = g.subs[1:]
		sub()
	}
	if g.usesFn["count"] {
		g.countFunction()
	}
	if g.usesFn["failed"] {
		g.failedFunction()
	}
	if g.c.Walk != nil {
		g.walkFunctions()
	}
	if g.err != nil {
		return nil, g.err
	}
	if limit := g.frameLimit(); g.frame.peak > limit {
		return nil, &frameError{g.frame.peak, limit}
	}
	return g.finish(), nil
}

// emit appends instructions. The first one gets the pending labels and the source line.
func (g *code) emit(ins ...asm.Instruction) {
	n := len(g.Insns)
	if n > maxInsns {
		g.fail("program of more than %d instructions", maxInsns)
		return
	}
	g.Add(ins...)
	if g.note != "" && len(ins) > 0 {
		g.Insns[n] = g.Insns[n].WithSource(asm.Comment(g.note))
		g.note = ""
	}
}

// label returns a new label, for Label to put it at the next instruction.
func (g *code) label() string { return g.Unique(".L") }

func (g *code) jump(l string) { g.emit(asm.Ja.Label(l)) }

// fail records the first error. Generation goes on, and its result is dropped.
func (g *code) fail(format string, args ...any) {
	if g.err == nil {
		g.err = fmt.Errorf(format, args...)
	}
}

// call calls a helper. It clobbers R0 to R5; the result is in R0.
func (g *runtime) call(fn asm.BuiltinFunc) {
	if g.busy != 0 {
		g.fail("internal error: call of %v with live registers %b", fn, g.busy)
	}
	if gplHelpers[fn] && !GPLCompatible(check.License(g.prog)) {
		g.fail("%v needs a licence that is compatible with the GPL, which %q is not", fn,
			check.License(g.prog))
	}
	g.emit(fn.Call())
}

// later moves code that seldom runs behind the end of the function.
func (g *code) later(l string, code func()) {
	g.fn.cold = append(g.fn.cold, func() {
		g.Label(l)
		code()
	})
}

func (g *code) flushCold() {
	for len(g.fn.cold) > 0 {
		code := g.fn.cold[0]
		g.fn.cold = g.fn.cold[1:]
		code()
	}
}

// funcMeta adds the BTF of a function, int name(long, …), to its first instruction.
func funcMeta(in asm.Instruction, name string, params int,
	linkage btf.FuncLinkage,
) asm.Instruction {
	proto := &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}}
	for i := range params {
		proto.Params = append(proto.Params, btf.FuncParam{
			Name: fmt.Sprintf("a%d", i), Type: &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed},
		})
	}
	return btf.WithFuncMetadata(in, &btf.Func{Name: name, Type: proto, Linkage: linkage})
}

// prepare assigns registers and slots before anything is generated.
func (g *statements) prepare() {
	uses := scan(g)
	uses.scratch = uses.scratch && !g.lim.noScratch
	if uses.callbacks {
		g.ctxSlot = -g.frame.take(8, 8)
		g.scratchSlot = -g.frame.take(8, 8)
		g.retSlot = -g.frame.take(8, 8)
	}
	if uses.result {
		g.resultSlot = -g.frame.take(8, 8)
	}
	g.depth = uses.depth
	g.placeVars(g.c, uses)
	g.findTypedVars(uses)
	g.fn.callback = false
	g.usesFn["scratch"] = uses.scratch
	g.usesFn["callbacks"] = uses.callbacks
	g.usesFn["ctx"] = uses.ctx
	g.usesFn["cookie"] = uses.cookie
}

// progType reports whether the program is of one of the types.
func (g *runtime) progType(types ...ebpf.ProgramType) bool {
	for _, t := range types {
		if g.c.Pp.Type == t {
			return true
		}
	}
	return false
}
