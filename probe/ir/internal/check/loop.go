package check

import (
	"fmt"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/loops"
)

var (
	BpfLoopSince = ir.Version{5, 17}
	IterNumSince = ir.Version{6, 4}
	MayGotoSince = ir.Version{6, 9}
)

const (
	// maxLoop is the maximal number of a loop's turns: BPF_MAX_LOOPS of bpf_loop
	// (kernel/bpf/bpf_iter.c).
	maxLoop = 1 << 23
	// maxPlain is the maximal number of a loop's turns if the verifier walks every turn.
	maxPlain = 4096
)

// turns checks that the plan's kernel supports the program's form of loops, and a loop of
// that many turns.
func (c *checker) turns(n int) error {
	form, since := c.prog.Loops, ir.Version{}
	switch form {
	case loops.Best, loops.Plain:
	case loops.Helper:
		since = BpfLoopSince
	case loops.Iter:
		since = IterNumSince
	case loops.MayGoto:
		since = MayGotoSince
	default:
		return fmt.Errorf("no such form of loops: %d", form)
	}
	if !c.kern.AtLeast(since) {
		return Unsupported("loop by "+form.String(), since, "Linux "+c.plan.Kernel+" is too old")
	}
	if n > maxLoop {
		return fmt.Errorf("loop of %d iterations: the limit is %d", n, maxLoop)
	}
	if n <= maxPlain || form != loops.Plain && c.kern.AtLeast(BpfLoopSince) {
		return nil
	}
	if form == loops.Plain && c.kern.AtLeast(BpfLoopSince) {
		return fmt.Errorf("plain loop of %d iterations: the limit is %d", n, maxPlain)
	}
	return Unsupported(fmt.Sprintf("loop of more than %d turns", maxPlain), BpfLoopSince,
		"Linux "+c.plan.Kernel+" is too old")
}
