package inspect

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/internal/check"
)

// Level is a stage of a program's code.
type Level uint8

// These are the levels.
const (
	LevelBPF        Level = iota // as generated, with the source in comments
	LevelTranslated              // as the verifier rewrote it (needs CAP_BPF, bpf_jit_harden off)
	LevelMachine                 // as the JIT compiled it
)

// Disassemble lists the code of the loaded program that has this name in the plan. sym names
// the targets of calls in machine code: it returns the symbol that covers an address, "" if
// there is none, and the symbol's start. It may be nil.
func Disassemble(l *bpf.Loaded, program string, level Level,
	sym func(uint64) (string, uint64),
) (string, error) {
	p := l.Programs()[program]
	if p == nil {
		return "", fmt.Errorf("disassemble %s: no such program", program)
	}
	if level == LevelBPF {
		spec, err := bpf.Compile(l.Program(), l.Plan())
		if err != nil {
			return "", err
		}
		return fmt.Sprint(spec.Programs[program].Instructions), nil
	}
	info, err := p.Info()
	if err != nil {
		return "", fmt.Errorf("disassemble %s: %w", program, err)
	}
	if level == LevelTranslated {
		insns, err := info.Instructions()
		if err != nil {
			return "", fmt.Errorf("disassemble %s: %w", program, err)
		}
		return fmt.Sprint(insns), nil
	}
	return disassembleJIT(info, l.Plan().Arch, program, sym)
}

// disassembleJIT lists machine code, function by function.
func disassembleJIT(info *ebpf.ProgramInfo, arch, program string,
	sym func(uint64) (string, uint64),
) (string, error) {
	code, ok := info.JitedInsns()
	if !ok {
		return "", fmt.Errorf("disassemble %s: %w", program,
			check.Unsupported("machine code", ir.Version{},
				"the JIT is off (net.core.bpf_jit_enable), hardened (bpf_jit_harden), or addresses are hidden (kptr_restrict)"))
	}
	addrs, _ := info.JitedKsymAddrs()
	lens, _ := info.JitedFuncLens()
	if len(lens) == 0 {
		lens = []uint32{uint32(len(code))}
	}
	var b strings.Builder
	for i, n := range lens {
		if int(n) > len(code) {
			return "", errors.New("functions are longer than the code")
		}
		start := uint64(0)
		if i < len(addrs) {
			start = uint64(addrs[i])
		}
		fmt.Fprintf(&b, "%#x:\n", start)
		b.WriteString(MachineCode(arch, code[:n], start, sym))
		code = code[n:]
	}
	return b.String(), nil
}

// MachineCode disassembles machine code for amd64 or arm64; arch is a GOARCH. For other
// architectures it lists bytes. Bytes that are not an instruction are listed as such.
func MachineCode(arch string, code []byte, addr uint64, sym func(uint64) (string, uint64)) string {
	if sym == nil {
		sym = func(uint64) (string, uint64) { return "", 0 }
	}
	var b strings.Builder
	for off := 0; off < len(code); {
		text, n := machineInsn(arch, code[off:], addr+uint64(off), sym)
		fmt.Fprintf(&b, "%6x:\t%s\n", off, text)
		off += n
	}
	return b.String()
}

func machineInsn(arch string, code []byte, pc uint64, sym func(uint64) (string, uint64)) (string,
	int,
) {
	switch arch {
	case "amd64":
		in, err := x86asm.Decode(code, 64)
		if err == nil && in.Len > 0 {
			return x86asm.GNUSyntax(in, pc, x86asm.SymLookup(sym)), in.Len
		}
	case "arm64":
		if len(code) >= 4 {
			if in, err := arm64asm.Decode(code); err == nil {
				return arm64asm.GNUSyntax(in), 4
			}
			return fmt.Sprintf(".word %#02x%02x%02x%02x", code[3], code[2], code[1], code[0]), 4
		}
	}
	return fmt.Sprintf(".byte %#02x", code[0]), 1
}

// InstructionStats counts a program's instructions.
type InstructionStats struct {
	// Instructions counts 8-byte slots: a 64-bit constant takes two.
	Instructions int
	// Loads, Stores, Atomics, ALU, Jumps and Calls count instructions by kind.
	Loads, Stores, Atomics, ALU, Jumps, Calls int
	// Helpers counts calls by helper.
	Helpers map[string]int
	// Stack is the depth of the deepest byte of the frame that is addressed.
	Stack int
}

// CountInstructions counts the instructions of a compiled program.
func CountInstructions(insns asm.Instructions) InstructionStats {
	st := InstructionStats{Helpers: map[string]int{}}
	for _, in := range insns {
		st.Instructions += int(in.Size() / asm.InstructionSize)
		class := in.OpCode.Class()
		switch {
		case in.OpCode.AtomicOp() != asm.InvalidAtomic:
			st.Atomics++
		case class.IsLoad():
			st.Loads++
		case class.IsStore():
			st.Stores++
		case class.IsALU():
			st.ALU++
		case in.OpCode.JumpOp() == asm.Call:
			st.Calls++
		default:
			st.Jumps++
		}
		if in.IsBuiltinCall() {
			st.Helpers[asm.BuiltinFunc(in.Constant).String()]++
		}
		st.Stack = max(st.Stack, frameUse(in))
	}
	return st
}

// frameUse returns how deep into the frame an instruction reaches, by an access or by
// computing an address from the frame pointer.
func frameUse(in asm.Instruction) int {
	class := in.OpCode.Class()
	switch {
	case class.IsStore() && in.Dst == asm.R10, class.IsLoad() && in.Src == asm.R10:
		return -int(in.Offset)
	case class.IsALU() && in.OpCode.ALUOp() == asm.Add && in.OpCode.Source() == asm.ImmSource &&
		in.Constant < 0 && in.Constant >= -512:
		return -int(in.Constant)
	}
	return 0
}

// ControlFlow returns a program's control flow graph in Graphviz's DOT language: basic blocks
// with their instructions, edges for jumps and for falling through, and dashed edges for
// calls of the program's functions.
func ControlFlow(insns asm.Instructions) string {
	at := map[string]int{}
	for i, in := range insns {
		if s := in.Symbol(); s != "" {
			at[s] = i
		}
	}
	starts := blockStarts(insns, at)
	var b strings.Builder
	b.WriteString("digraph program {\n\tnode [shape=box fontname=monospace];\n")
	for n, first := range starts {
		end := len(insns)
		if n+1 < len(starts) {
			end = starts[n+1]
		}
		writeBlock(&b, insns, at, first, end)
	}
	b.WriteString("}\n")
	return b.String()
}

// blockStarts returns the indexes at which basic blocks begin, ascending.
func blockStarts(insns asm.Instructions, at map[string]int) []int {
	set := map[int]bool{0: true}
	for i, in := range insns {
		if !in.OpCode.Class().IsJump() {
			continue
		}
		op := in.OpCode.JumpOp()
		if to, ok := at[in.Reference()]; ok {
			set[to] = true
		}
		if op != asm.Call && i+1 < len(insns) {
			set[i+1] = true
		}
	}
	out := make([]int, 0, len(set))
	for i := range set {
		out = append(out, i)
	}
	sort.Ints(out)
	return out
}

func writeBlock(b *strings.Builder, insns asm.Instructions, at map[string]int, first, end int) {
	fmt.Fprintf(b, "\tb%d [label=\"", first)
	for _, in := range insns[first:end] {
		if src := in.Source(); src != nil {
			fmt.Fprintf(b, "; %s\\l",
				strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", " ").Replace(src.String()))
		}
		fmt.Fprintf(b, "%s\\l", strings.ReplaceAll(fmt.Sprintf("%v", in), `"`, `\"`))
	}
	b.WriteString("\"];\n")
	for i := first; i < end; i++ {
		in := insns[i]
		if !in.OpCode.Class().IsJump() {
			continue
		}
		if to, ok := at[in.Reference()]; ok {
			style := ""
			if in.OpCode.JumpOp() == asm.Call {
				style = " [style=dashed]"
			}
			fmt.Fprintf(b, "\tb%d -> b%d%s;\n", first, to, style)
		}
	}
	last := insns[end-1]
	op := last.OpCode.JumpOp()
	if end < len(insns) && !(last.OpCode.Class().IsJump() && (op == asm.Ja || op == asm.Exit)) {
		fmt.Fprintf(b, "\tb%d -> b%d;\n", first, end)
	}
}
