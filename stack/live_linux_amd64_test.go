package stack

import (
	"debug/elf"
	"encoding/binary"
	"syscall"
)

func amd64PtraceRegs(p *syscall.PtraceRegs) *Regs {
	if p.Cs == 0 { // a 32-bit process's, which are fewer and shorter: struct user_regs_struct32
		b, _ := binary.Append(nil, binary.LittleEndian, p)
		r := &Regs{Machine: elf.EM_386}
		for i, n := range []int{3, 1, 2, 6, 7, 5, 0, -1, -1, -1, -1, -1, 8, -1, -1, 4} {
			if n >= 0 {
				r.Set(n, uint64(binary.LittleEndian.Uint32(b[4*i:])))
			}
		}
		return r
	}
	r := &Regs{Machine: elf.EM_X86_64, TLS: p.Fs_base}
	for n, v := range []uint64{
		p.Rax, p.Rdx, p.Rcx, p.Rbx, p.Rsi, p.Rdi, p.Rbp, p.Rsp, p.R8, p.R9, p.R10, p.R11, p.R12, p.R13, p.R14, p.R15, p.Rip,
	} {
		r.Set(n, v)
	}
	return r
}
