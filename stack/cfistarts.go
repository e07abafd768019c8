package stack

import (
	"bytes"
	"debug/elf"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/stack/internal/rules"
)

// longestStart is the longest code of a function that findStarts looks for: glibc's has 26 bytes, with
// shadow stacks some 80.
const longestStart = 128

// mostGap is how much of the code that no FDE describes is read.
const mostGap = 1 << 20

// findStarts finds where the stacks of coroutines begin: code to which their first function returns, that
// no call has led to, and that does not return. The byte before it, where walks look up a return address,
// gets a rule: there is no caller. The rule of that byte was of another function.
//
//   - makecontext has the first function return to the start of one that keeps nothing on the stack and
//     ends the thread (__start_context in glibc's sysdeps/unix/sysv/linux/x86_64, __startcontext on arm64).
//   - Boost.Context has it return to code without an FDE, which calls _exit(0) (make_fcontext in
//     make_x86_64_sysv_elf_gas.S).
func (b *cfiBuilder) findStarts(f *elffile.File) {
	b.sortSegs()
	end, left := uint32(0), uint32(mostGap)
	for i, s := range b.segs {
		gap := s.start - min(s.start, end)
		if i > 0 && gap > 0 {
			if gap >= minGap && gap <= left && b.machine == elf.EM_X86_64 {
				left -= gap
				b.exits(f, end, s.start)
			}
			if n := s.end - s.start; s.n == 1 && n <= longestStart && n >= 4 && b.endsThread(b.code(f, s.end-4, 4)) {
				b.starts = append(b.starts, s.start)
			}
		}
		end = max(end, s.end)
	}
	if len(b.starts) == 0 {
		return
	}
	s := cfiState{cfa: rules.CFA{Kind: rules.CFAReg, Reg: AMD64RSP, Off: 8}}
	switch b.machine {
	case elf.EM_AARCH64:
		s.cfa.Reg, s.cfa.Off = ARM64SP, 0
	case elf.EM_386:
		s.cfa.Reg, s.cfa.Off = I386ESP, 4
	}
	s.setReg(uint64(rules.ReturnReg(b.machine)), rules.RegRule{Kind: rules.RegUndef})
	b.start = b.intern(&s)
}

// code returns n bytes at an address relative to base, nil if the file does not have them.
func (b *cfiBuilder) code(f *elffile.File, at, n uint32) []byte {
	code, _ := f.BytesAt(b.base+uint64(at), uint64(n))
	return code
}

// endsThread reports whether a function that ends so does not return: with HLT after a call of exit, on
// arm64 with a jump to it.
func (b *cfiBuilder) endsThread(code []byte) bool {
	switch {
	case len(code) != 4:
		return false
	case b.machine == elf.EM_AARCH64:
		return code[3]&0xfc == 0x14 // B
	}
	return code[3] == 0xf4
}

// exitCode begins XOR RDI, RDI and CALL rel32.
var exitCode = []byte{0x48, 0x31, 0xff, 0xe8}

// exits finds calls of _exit(0) in code without an FDE, and HLT behind them.
func (b *cfiBuilder) exits(f *elffile.File, from, to uint32) {
	code := b.code(f, from, to-from)
	for at := 0; ; at++ {
		i := bytes.Index(code[at:], exitCode)
		if i < 0 || at+i+9 > len(code) {
			return
		}
		if at += i; at > 0 && code[at+8] == 0xf4 {
			b.starts = append(b.starts, from+uint32(at))
		}
	}
}

// addThunks gives rules to functions of i386 that no FDE describes: those that return their return address,
// by which code finds its data. Each executable has one of C's startup code, which all its functions may call.
func (b *cfiBuilder) addThunks(f *elffile.File) {
	if b.machine != elf.EM_386 {
		return
	}
	b.sortSegs()
	end, left := uint32(0), uint32(mostGap)
	for i, s := range b.segs[:len(b.segs):len(b.segs)] {
		if gap := s.start - min(s.start, end); i > 0 && gap > 0 && gap <= left && !b.full() {
			left -= gap
			code := b.code(f, end, gap)
			for at := 0; at+thunkLen <= len(code); at++ {
				if isThunk(code[at:]) {
					b.addThunk(end + uint32(at))
				}
			}
		}
		end = max(end, s.end)
	}
}

const thunkLen = 4

// isThunk reports whether code begins with "mov (%esp), %reg; ret".
func isThunk(code []byte) bool {
	return code[0] == 0x8b && code[1]&0xc7 == 0x04 && code[2] == 0x24 && code[3] == 0xc3
}

func (b *cfiBuilder) addThunk(at uint32) {
	s := cfiState{cfa: rules.CFA{Kind: rules.CFAReg, Reg: I386ESP, Off: 4}}
	s.setReg(I386EIP, rules.RegRule{Kind: rules.RegAtCFA, Off: -4})
	b.segs = append(b.segs, cfiSeg{at, at + thunkLen, uint32(len(b.pcs)), 1})
	b.pcs, b.index = append(b.pcs, at), append(b.index, b.intern(&s))
}
