package check

import (
	"debug/elf"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/kernelcode"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/stack/bpfwalk"
)

// taskRegsSince is the first kernel with bpf_task_pt_regs.
var taskRegsSince = ir.Version{5, 15}

// plainFrames is the maximal number of the walker's rounds that the verifiers of kernels
// without bpf_loop accept (bpfwalk.Walker.MaxFrames).
const plainFrames = 127

// loopFrames is the maximal number of frames of a walk with bpf_loop: they fit into scratch
// memory with room for other values.
const loopFrames = 512

// TaskStack is a member of struct task_struct. On kernels without bpf_task_pt_regs the walker
// needs its offset.
const TaskStack = "task_struct.stack"

// walked prepares the action's walker for one more stack of that many frames.
func (c *checker) walked(frames int) error {
	const what = "walk of a user stack"
	old := "Linux " + c.plan.Kernel + " has no bpf_loop: "
	plain := !c.kern.AtLeast(BpfLoopSince)
	switch {
	case c.pp.Type == ebpf.SocketFilter || c.pp.Type == ebpf.Syscall:
		return Unsupported(what, ir.Version{}, c.targetName()+" runs on behalf of no process")
	case frames > loopFrames:
		return fmt.Errorf("%d frames: the limit is %d, including those left out", frames, loopFrames)
	case plain && frames > plainFrames:
		return Unsupported(fmt.Sprintf("walk of %d frames", frames), BpfLoopSince,
			old+fmt.Sprintf("take at most %d", plainFrames))
	case plain && c.loops > 0:
		return Unsupported(what+" in a loop", BpfLoopSince, old+"walk it before the loop")
	case plain && c.walk != nil:
		return Unsupported("second "+what, BpfLoopSince, old+"walk it once")
	}
	if c.walk == nil {
		w, err := c.newWalker(plain)
		if err != nil {
			return err
		}
		c.walk = w
	}
	c.walk.MaxFrames = max(c.walk.MaxFrames, frames)
	return nil
}

func (c *checker) newWalker(plain bool) (*bpfwalk.Walker, error) {
	w := &bpfwalk.Walker{PlainLoop: plain, Returns: returnProbes(c.plan), Entry: atEntries(c.pp)}
	if c.plan.Arch == "arm64" {
		w.Machine = elf.EM_AARCH64
	}
	if c.kern.AtLeast(taskRegsSince) {
		return w, nil
	}
	if c.plan.BTF == nil {
		return nil, Unsupported("walk of a user stack", taskRegsSince,
			"older kernels need the offset of task_struct.stack: "+noBTF)
	}
	off, err := kernel.MemberOffset(c.plan.BTF, TaskStack)
	if err != nil {
		return nil, Unsupported("walk of a user stack", taskRegsSince,
			"older kernels need the offset of task_struct.stack: "+noBTF)
	}
	w.TaskStackOffset = int(off)
	return w, nil
}

// atEntries reports whether a program runs at the first instructions of functions only. Go programs
// are probed behind the stack check, and parts that a compiler split off are not called.
func atEntries(p *probe.ProgramPlan) bool {
	return p.UserRegs && !p.Returns && !p.EntryReturn() && p.Go == nil && !slices.ContainsFunc(p.Sites, func(s probe.Site) bool {
		u, ok := s.Target.(probe.Uprobe)
		return !ok || u.Symbol == "" || u.Offset != 0 || kernelcode.IsSplit(s.Symbol)
	})
}

// returnProbes returns the offsets at which the kernel keeps the return addresses that
// uretprobes replaced, nil if the plan's types do not have them.
func returnProbes(plan *probe.Plan) *bpfwalk.ReturnProbes {
	if plan.BTF == nil {
		return nil
	}
	at, err := kernel.MemberOffsets(plan.BTF, kernel.ReturnInstances...)
	if err != nil {
		return nil
	}
	return &bpfwalk.ReturnProbes{
		Task: int(at[0]), Instances: int(at[1]), Next: int(at[2]),
		Stack: int(at[3]), Addr: int(at[4]),
	}
}

// stackType returns the type of a stack of n frames.
func stackType(op ir.Op, n int64) ir.Type {
	if op != ir.OpKstack {
		return ir.BytesType(int(n) * 8).WithFormat(ir.FormatUstack)
	}
	return ir.BytesType(int(n) * 8).WithFormat(ir.FormatKstack)
}
