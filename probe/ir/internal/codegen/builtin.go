package codegen

import "github.com/cilium/ebpf/asm"

// builtinHelpers are the helpers behind builtins. shift and width, in bits, select the value
// in a helper's result.
var builtinHelpers = map[string]struct {
	helper       asm.BuiltinFunc
	shift, width int32
}{
	"pid":          {helper: asm.FnGetCurrentPidTgid, shift: 32},
	"tid":          {helper: asm.FnGetCurrentPidTgid, width: 32},
	"pidtgid":      {helper: asm.FnGetCurrentPidTgid},
	"uid":          {helper: asm.FnGetCurrentUidGid, width: 32},
	"gid":          {helper: asm.FnGetCurrentUidGid, shift: 32},
	"comm":         {helper: asm.FnGetCurrentComm},
	"cpu":          {helper: asm.FnGetSmpProcessorId},
	"numa":         {helper: asm.FnGetNumaNodeId},
	"cgroup":       {helper: asm.FnGetCurrentCgroupId},
	"nsecs":        {helper: asm.FnKtimeGetNs},
	"nsecs_boot":   {helper: asm.FnKtimeGetBootNs},
	"nsecs_tai":    {helper: asm.FnKtimeGetTaiNs},
	"nsecs_sw_tai": {helper: asm.FnKtimeGetNs},
	"elapsed":      {helper: asm.FnKtimeGetNs},
	"jiffies":      {helper: asm.FnJiffies64},
	"rand":         {helper: asm.FnGetPrandomU32},
	"curtask":      {helper: asm.FnGetCurrentTask},
	"ppid":         {helper: asm.FnGetCurrentTask},
	"func":         {helper: asm.FnGetFuncIp},
	"probe":        {helper: asm.FnGetAttachCookie},
	"cookie":       {helper: asm.FnGetAttachCookie},
	"nspid":        {helper: asm.FnGetNsCurrentPidTgid},
	"nstid":        {helper: asm.FnGetNsCurrentPidTgid},
}

// gplHelpers are the helpers that only programs with a GPL-compatible licence may call
// (gpl_only in struct bpf_func_proto).
var gplHelpers = map[asm.BuiltinFunc]bool{
	asm.FnProbeReadKernel: true, asm.FnProbeReadKernelStr: true, asm.FnProbeReadUser: true,
	asm.FnProbeReadUserStr: true, asm.FnGetStack: true, asm.FnGetCurrentTask: true,
	asm.FnGetCurrentTaskBtf: true, asm.FnGetFuncIp: true, asm.FnPerfEventOutput: true,
	asm.FnSkbOutput:      true,
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
