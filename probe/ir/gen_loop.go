package ir

// LoopForm is a way to compile counted loops. All compute the same; they differ in
// what they cost and in what the kernel must have.
type LoopForm uint8

// The forms.
const (
	// LoopsBest takes, of what the kernel has, what runs fastest and is sure to be
	// verified: LoopsPlain for up to 8 turns, then LoopsMayGoto from Linux 6.12 on,
	// where the loops of an action make at most 65,535 turns in all, none is over a
	// map, and their bodies are of numbers with few branches, then LoopsHelper.
	LoopsBest LoopForm = iota
	// LoopsPlain branches back. Every kernel has it, but its verifier walks every
	// turn: at most 4096, and fewer with a body of many instructions.
	LoopsPlain
	// LoopsHelper has bpf_loop call the body (5.17). Variables are then in memory.
	LoopsHelper
	// LoopsIter branches back after asking the kernel's iterator of numbers
	// (bpf_iter_num_next, 6.4), by a call in every turn. It needs BTF and a licence
	// that is compatible with the GPL.
	LoopsIter
	// LoopsMayGoto branches back over an instruction that bounds the turns
	// (may_goto, 6.9). The kernel counts them for all loops of an action together,
	// and so Compile refuses loops of more than 65,535 turns in all: beyond, newer
	// kernels (6.15) end a loop after a quarter of a second. A turn takes half the
	// time that it takes with LoopsHelper (BenchmarkLoops: 2.4 ns and 5.0 ns, 3.5 ns
	// with LoopsIter), but the verifier may give up on bodies of many branches, such
	// as operations on text, which it accepts in the other forms.
	LoopsMayGoto
	NumLoopForms
)

var loopFormNames = [NumLoopForms]string{"best", "plain", "bpf_loop", "bpf_iter_num", "may_goto"}

// String is the form's name.
func (f LoopForm) String() string {
	if f < NumLoopForms {
		return loopFormNames[f]
	}
	return "invalid"
}
