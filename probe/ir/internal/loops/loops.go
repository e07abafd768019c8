// Package loops defines the ways to compile counted loops.
package loops

// Form is a way to compile counted loops. All forms compute the same. They differ in cost and
// in what they need of the kernel.
type Form uint8

// These are the forms.
const (
	// Best chooses the fastest form that the kernel has and whose verification is certain:
	// Plain for up to 8 turns, then MayGoto from Linux 6.12 on if the loops of an action make
	// at most 65,535 turns in all, none is over a map, and their bodies have only scalars and
	// few branches, then Helper.
	Best Form = iota
	// Plain branches back. Every kernel has it, but the verifier walks every turn: at most
	// 4096, and fewer if the body has many instructions.
	Plain
	// Helper makes bpf_loop call the body (5.17). Variables are then in memory.
	Helper
	// Iter branches back after a call of the kernel's iterator of numbers in every turn
	// (bpf_iter_num_next, 6.4). It needs BTF and a GPL-compatible licence.
	Iter
	// MayGoto branches back over an instruction that bounds the turns (may_goto, 6.9). The
	// kernel counts them for all loops of an action together, so Compile refuses loops of
	// more than 65,535 turns in all: beyond that, newer kernels (6.15) end a loop after a
	// quarter of a second. A turn takes half the time that it takes with Helper
	// (BenchmarkLoops: 2.4 ns and 5.0 ns; 3.5 ns with Iter). But the verifier may refuse
	// bodies of many branches, such as operations on text, that it accepts in the other
	// forms.
	MayGoto
	numForms
)

var formNames = [numForms]string{"best", "plain", "bpf_loop", "bpf_iter_num", "may_goto"}

// String returns the form's name.
func (f Form) String() string {
	if f < numForms {
		return formNames[f]
	}
	return "invalid"
}
