package stack

import (
	"debug/elf"
	"syscall"
)

func amd64PtraceRegs(p *syscall.PtraceRegs) *Regs {
	r := &Regs{Machine: elf.EM_X86_64, TLS: p.Fs_base}
	for n, v := range []uint64{
		p.Rax, p.Rdx, p.Rcx, p.Rbx, p.Rsi, p.Rdi, p.Rbp, p.Rsp, p.R8, p.R9, p.R10, p.R11, p.R12, p.R13, p.R14, p.R15, p.Rip,
	} {
		r.Set(n, v)
	}
	return r
}
