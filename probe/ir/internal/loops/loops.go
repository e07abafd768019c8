// Package loops has the ways to compile counted loops.
package loops

// Form is a way to compile counted loops. All compute the same; they differ in
// what they cost and in what the kernel must have.
type Form uint8

// The forms.
const (
	// Best takes, of what the kernel has, what runs fastest and is sure to be
	// verified: Plain for up to 8 turns, then MayGoto from Linux 6.12 on,
	// where the loops of an action make at most 65,535 turns in all, none is over a
	// map, and their bodies are of numbers with few branches, then Helper.
	Best Form = iota
	// Plain branches back. Every kernel has it, but its verifier walks every
	// turn: at most 4096, and fewer with a body of many instructions.
	Plain
	// Helper has bpf_loop call the body (5.17). Variables are then in memory.
	Helper
	// Iter branches back after asking the kernel's iterator of numbers
	// (bpf_iter_num_next, 6.4), by a call in every turn. It needs BTF and a licence
	// that is compatible with the GPL.
	Iter
	// MayGoto branches back over an instruction that bounds the turns
	// (may_goto, 6.9). The kernel counts them for all loops of an action together,
	// and so Compile refuses loops of more than 65,535 turns in all: beyond, newer
	// kernels (6.15) end a loop after a quarter of a second. A turn takes half the
	// time that it takes with Helper (BenchmarkLoops: 2.4 ns and 5.0 ns, 3.5 ns
	// with Iter), but the verifier may give up on bodies of many branches, such
	// as operations on text, which it accepts in the other forms.
	MayGoto
	numForms
)

var formNames = [numForms]string{"best", "plain", "bpf_loop", "bpf_iter_num", "may_goto"}

// String is the form's name.
func (f Form) String() string {
	if f < numForms {
		return formNames[f]
	}
	return "invalid"
}
