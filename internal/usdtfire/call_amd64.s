//go:build linux

#include "textflag.h"

// LOAD takes argument i of the frame in BX.
#define LOAD(i, r) MOVQ (i*8)(BX), r; ORQ (96+i*8)(BX), r

// func call(stub uintptr, f *frame)
//
// R14 is Go's g and R15 is not an argument, so that 12 registers are left. The
// stub is a nop and a ret, which returns to the caller of this.
TEXT ·call(SB), NOSPLIT, $0-16
	MOVQ stub+0(FP), R15
	MOVQ f+8(FP), BX
	MOVQ 184(BX), AX
	ORQ AX, 88(BX)
	LOAD(0, DI)
	LOAD(1, SI)
	LOAD(2, DX)
	LOAD(3, CX)
	LOAD(4, R8)
	LOAD(5, R9)
	LOAD(6, AX)
	LOAD(7, R10)
	LOAD(8, R11)
	LOAD(9, R12)
	LOAD(10, R13)
	MOVQ 88(BX), BX
	JMP R15

// func callValues(stub uintptr, values *[12]uint64)
TEXT ·callValues(SB), NOSPLIT, $0-16
	MOVQ stub+0(FP), R15
	MOVQ values+8(FP), BX
	MOVQ 0(BX), DI
	MOVQ 8(BX), SI
	MOVQ 16(BX), DX
	MOVQ 24(BX), CX
	MOVQ 32(BX), R8
	MOVQ 40(BX), R9
	MOVQ 48(BX), AX
	MOVQ 56(BX), R10
	MOVQ 64(BX), R11
	MOVQ 72(BX), R12
	MOVQ 80(BX), R13
	MOVQ 88(BX), BX
	JMP R15
