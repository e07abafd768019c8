#include "textflag.h"

// func readCounter(index uint32) uint64
// RDPMC, Intel SDM volume 2: counter ECX into EDX:EAX.
TEXT ·readCounter(SB), NOSPLIT, $0-16
	MOVL index+0(FP), CX
	RDPMC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+8(FP)
	RET

// func readClock() uint64
// RDTSC: the clock of the page's times on x86.
TEXT ·readClock(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET
