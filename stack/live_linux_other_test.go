//go:build linux && !amd64

package stack

import "syscall"

func amd64PtraceRegs(*syscall.PtraceRegs) *Regs { return nil }
