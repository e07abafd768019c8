#include "textflag.h"

// Eleven additions, a subtraction and a branch.
TEXT ·Loop(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
loop:
	ADDQ $1, AX
	ADDQ $1, BX
	ADDQ $1, DX
	ADDQ $1, SI
	ADDQ $1, DI
	ADDQ $1, R8
	ADDQ $1, R9
	ADDQ $1, R10
	ADDQ $1, R11
	ADDQ $1, R12
	ADDQ $1, R13
	SUBQ $1, CX
	JNE  loop
	RET
