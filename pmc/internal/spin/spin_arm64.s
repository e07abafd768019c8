#include "textflag.h"

// Eleven additions, a subtraction and a branch.
TEXT ·Loop(SB), NOSPLIT, $0-8
	MOVD n+0(FP), R0
loop:
	ADD  $1, R1
	ADD  $1, R2
	ADD  $1, R3
	ADD  $1, R4
	ADD  $1, R5
	ADD  $1, R6
	ADD  $1, R7
	ADD  $1, R8
	ADD  $1, R9
	ADD  $1, R10
	ADD  $1, R11
	SUBS $1, R0
	BNE  loop
	RET
