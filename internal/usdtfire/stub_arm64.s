//go:build linux

#include "textflag.h"

// STUB is nop; ret; and a trap to the next 16 bytes.
#define STUB WORD $0xd503201f; WORD $0xd65f03c0; WORD $0xd4200000; WORD $0xd4200000
#define STUB5 STUB; STUB; STUB; STUB; STUB
#define STUB17 STUB5; STUB5; STUB5; STUB; STUB

// stubs are PoolMark0, PoolMark1, and 255 stubs.
TEXT ·stubs(SB), NOSPLIT|NOFRAME, $0-0
	PCALIGN $16
	WORD $0x2f5c9047
	WORD $0xd16b3a8e
	WORD $0x5a81fd36
	WORD $0x4e07c2b9
	STUB17; STUB17; STUB17; STUB17; STUB17
	STUB17; STUB17; STUB17; STUB17; STUB17
	STUB17; STUB17; STUB17; STUB17; STUB17
	RET

// func pool() uintptr
TEXT ·pool(SB), NOSPLIT, $0-8
	MOVD $·stubs(SB), R0
	ADD $15, R0
	AND $~15, R0
	MOVD R0, ret+0(FP)
	RET
