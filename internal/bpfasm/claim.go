package bpfasm

import "github.com/cilium/ebpf/asm"

// Claims is how programs claim areas of memory of one CPU, each of which begins with a word that is 0 while no
// one has it: from an interrupt that comes between any two instructions, and has ended when the program goes
// on, and from a program of another task, which may preempt this one and outlast it. The word's register is
// kept, and R1 is changed.
type Claims struct {
	// Exchange is for kernels whose JIT has an atomic exchange. Without it the word counts: who adds one and
	// reads one has the area, who reads more takes that back.
	Exchange bool
}

// Claim goes on if the area is now the program's, and to taken if it is another's.
func (c Claims) Claim(word asm.Register, off int16, taken string) asm.Instructions {
	if c.Exchange {
		return asm.Instructions{
			asm.Mov.Imm(asm.R1, 1), Atomic(asm.Xchg, word, asm.R1, off), asm.JNE.Imm(asm.R1, 0, taken),
		}
	}
	return asm.Instructions{
		asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(word, asm.R1, asm.DWord, off),
		asm.LoadMem(asm.R1, word, off, asm.DWord), asm.JNE.Imm(asm.R1, 1, taken),
	}
}

// Taken is what comes first where Claim went because the area is another's. It may be nothing.
func (c Claims) Taken(word asm.Register, off int16) asm.Instructions {
	if c.Exchange {
		return nil
	}
	return asm.Instructions{asm.Mov.Imm(asm.R1, -1), asm.AddAtomic.Mem(word, asm.R1, asm.DWord, off)}
}

// Release gives back an area that the program has.
func (c Claims) Release(word asm.Register, off int16) asm.Instructions {
	if c.Exchange {
		return asm.Instructions{StoreImm(word, int(off), 0, asm.DWord)}
	}
	return c.Taken(word, off)
}
