package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe/ir/internal/builtin"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// generated are the builtins that need instructions besides a helper's call.
var generated = map[string]func(g *runtime, e *typed.Node, dst asm.Register){
	"ctx": func(g *runtime, _ *typed.Node, dst asm.Register) { g.emit(asm.Mov.Reg(dst, g.ctxReg())) },
	"elapsed": func(g *runtime, e *typed.Node, dst asm.Register) {
		g.helper(e, asm.R0)
		g.control(asm.R1)
		g.emit(asm.LoadMem(asm.R1, asm.R1, ctlStart, asm.DWord), asm.Sub.Reg(asm.R0, asm.R1))
		g.move(dst, asm.R0)
	},
	"nsecs_sw_tai": func(g *runtime, e *typed.Node, dst asm.Register) {
		g.helper(e, asm.R0)
		g.control(asm.R1)
		g.emit(asm.LoadMem(asm.R1, asm.R1, ctlTAI, asm.DWord), asm.Add.Reg(asm.R0, asm.R1))
		g.move(dst, asm.R0)
	},
	"is_return": func(g *runtime, _ *typed.Node, dst asm.Register) {
		g.isReturn()
		g.move(dst, asm.R0)
	},
	"session_cookie": func(g *runtime, _ *typed.Node, dst asm.Register) {
		g.kfunc(check.KfuncCookie)
		g.emit(asm.LoadMem(dst, asm.R0, 0, asm.DWord))
	},
	"ncpus": func(g *runtime, _ *typed.Node, dst asm.Register) {
		g.control(dst)
		g.emit(asm.LoadMem(dst, dst, ctlCPUs, asm.Word))
	},
	"nspid": func(g *runtime, _ *typed.Node, dst asm.Register) { g.namespaceID(4, dst) },
	"nstid": func(g *runtime, _ *typed.Node, dst asm.Register) { g.namespaceID(0, dst) },
}

// builtin evaluates a builtin that the checker did not replace.
func (g *runtime) builtin(e *typed.Node, dst asm.Register) {
	if generate := generated[e.Str]; generate != nil {
		generate(g, e, dst)
		return
	}
	g.helper(e, dst)
}

// helper calls a builtin's helper.
func (g *runtime) helper(e *typed.Node, dst asm.Register) {
	b := builtin.Named(e.Str)
	if b.Helper == 0 {
		g.fail("internal error: builtin %s", e.Str)
		return
	}
	if b.Context {
		g.emit(asm.Mov.Reg(asm.R1, g.ctxReg()))
	}
	g.call(b.Helper)
	switch b.Part {
	case builtin.High:
		g.emit(asm.RSh.Imm(asm.R0, 32))
	case builtin.Low:
		g.emit(asm.Mov.Reg32(asm.R0, asm.R0))
	}
	g.move(dst, asm.R0)
}

// namespaceID reads the member at off of a struct bpf_pidns_info (pid, tgid), whose members are 0
// outside of the loader's namespace.
func (g *runtime) namespaceID(off int, dst asm.Register) {
	m := g.mark()
	defer g.release(m)
	ids := g.slot() // zeros if the helper fails
	g.control(asm.R2)
	g.emit(asm.LoadMem(asm.R1, asm.R2, ctlNSDev, asm.DWord),
		asm.LoadMem(asm.R2, asm.R2, ctlNSIno, asm.DWord))
	g.addr(asm.R3, ids)
	g.emit(asm.Mov.Imm(asm.R4, 8))
	g.call(asm.FnGetNsCurrentPidTgid)
	g.load(dst, ids.at(off), 4)
}

// gplHelpers are the helpers that only programs with a GPL-compatible licence may call
// (gpl_only in struct bpf_func_proto).
var gplHelpers = map[asm.BuiltinFunc]bool{
	asm.FnProbeReadKernel: true, asm.FnProbeReadKernelStr: true, asm.FnProbeReadUser: true,
	asm.FnProbeReadUserStr: true, asm.FnGetStack: true, asm.FnGetCurrentTask: true,
	asm.FnGetCurrentTaskBtf: true, asm.FnGetFuncIp: true, asm.FnPerfEventOutput: true,
	asm.FnSkbOutput: true, asm.FnTracePrintk: true,
	asm.FnOverrideReturn: true,
}

// GPLCompatible reports whether the kernel accepts a licence as GPL-compatible
// (license_is_gpl_compatible, include/linux/license.h).
func GPLCompatible(license string) bool {
	switch license {
	case "GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL":
		return true
	}
	return false
}
