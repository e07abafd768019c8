//go:build linux

#include "textflag.h"

// LOAD takes argument i of the frame in R17.
#define LOAD(i, r) MOVD (i*8)(R17), r; MOVD (96+i*8)(R17), R19; ORR R19, r, r

// func call(stub uintptr, f *frame)
//
// The stub returns to the caller of this, whose address is in LR still.
TEXT ·call(SB), NOSPLIT, $0-16
	MOVD stub+0(FP), R16
	MOVD f+8(FP), R17
	LOAD(0, R0)
	LOAD(1, R1)
	LOAD(2, R2)
	LOAD(3, R3)
	LOAD(4, R4)
	LOAD(5, R5)
	LOAD(6, R6)
	LOAD(7, R7)
	LOAD(8, R8)
	LOAD(9, R9)
	LOAD(10, R10)
	LOAD(11, R11)
	JMP (R16)

// func callValues(stub uintptr, values *[12]uint64)
TEXT ·callValues(SB), NOSPLIT, $0-16
	MOVD stub+0(FP), R16
	MOVD values+8(FP), R17
	LDP 0(R17), (R0, R1)
	LDP 16(R17), (R2, R3)
	LDP 32(R17), (R4, R5)
	LDP 48(R17), (R6, R7)
	LDP 64(R17), (R8, R9)
	LDP 80(R17), (R10, R11)
	JMP (R16)
