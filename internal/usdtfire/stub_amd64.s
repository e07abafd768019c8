//go:build linux

#include "textflag.h"

// STUB is nop; ret; and a trap to the next 16 bytes.
#define STUB LONG $0xccccc390; LONG $0xcccccccc; LONG $0xcccccccc; LONG $0xcccccccc
#define STUB5 STUB; STUB; STUB; STUB; STUB
#define STUB17 STUB5; STUB5; STUB5; STUB; STUB

// stubs are PoolMark0, PoolMark1, and 255 stubs.
TEXT ·stubs(SB), NOSPLIT|NOFRAME, $0-0
	PCALIGN $16
	QUAD $0xd16b3a8e2f5c9047
	QUAD $0x4e07c2b95a81fd36
	STUB17; STUB17; STUB17; STUB17; STUB17
	STUB17; STUB17; STUB17; STUB17; STUB17
	STUB17; STUB17; STUB17; STUB17; STUB17
	RET

// func pool() uintptr
TEXT ·pool(SB), NOSPLIT, $0-8
	LEAQ ·stubs(SB), AX
	ADDQ $15, AX
	ANDQ $~15, AX
	MOVQ AX, ret+0(FP)
	RET
