#include "textflag.h"

// func addFours(dst *uint64, s *[8][]uint64, fours int)
// The pointers of the slices are 24 bytes apart. Two sums at a time, so that
// additions don't wait for one another.
TEXT ·addFours(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ s+8(FP), SI
	MOVQ fours+16(FP), CX
	MOVQ 0(SI), R8
	MOVQ 24(SI), R9
	MOVQ 48(SI), R10
	MOVQ 72(SI), R11
	MOVQ 96(SI), R12
	MOVQ 120(SI), R13
	MOVQ 144(SI), BX
	MOVQ 168(SI), DX
	XORQ AX, AX

next:
	VMOVDQU (DI)(AX*1), Y0
	VMOVDQU (R8)(AX*1), Y1
	VPADDQ  (R9)(AX*1), Y0, Y0
	VPADDQ  (R10)(AX*1), Y1, Y1
	VPADDQ  (R11)(AX*1), Y0, Y0
	VPADDQ  (R12)(AX*1), Y1, Y1
	VPADDQ  (R13)(AX*1), Y0, Y0
	VPADDQ  (BX)(AX*1), Y1, Y1
	VPADDQ  (DX)(AX*1), Y0, Y0
	VPADDQ  Y1, Y0, Y0
	VMOVDQU Y0, (DI)(AX*1)
	ADDQ    $32, AX
	DECQ    CX
	JNZ     next
	VZEROUPPER
	RET
