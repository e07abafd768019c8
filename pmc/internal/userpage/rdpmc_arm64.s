#include "textflag.h"

// The assembler knows no names for the PMU's registers, so MRS is spelled out:
// 0xD5300000 | (op0-2)<<19 | op1<<16 | CRn<<12 | CRm<<8 | op2<<5 | Rt
// (Arm ARM, C6.2 MRS; D19.5 PMCCNTR_EL0 and PMEVCNTR<n>_EL0).
#define EVENT(n) \
	WORD $(0xD53BE800 + ((n)>>3)*0x100 + ((n)&7)*0x20); \
	JMP  done

// func readCounter(index uint32) uint64
// Index 0 to 30 is PMEVCNTR<n>_EL0, 31 the cycle counter PMCCNTR_EL0 (drivers/
// perf/arm_pmuv3.c, armv8pmu_user_event_idx); others, which the kernel does not
// give, read 0.
TEXT ·readCounter(SB), NOSPLIT, $0-16
	MOVWU index+0(FP), R2
	MOVD  $0, R0
	CMP   $31, R2
	BHI   done
	WORD  $0x10000061      // ADR X1, 12 bytes on: the table
	ADD   R2<<3, R1, R1    // of two instructions each
	JMP   (R1)
	EVENT(0)
	EVENT(1)
	EVENT(2)
	EVENT(3)
	EVENT(4)
	EVENT(5)
	EVENT(6)
	EVENT(7)
	EVENT(8)
	EVENT(9)
	EVENT(10)
	EVENT(11)
	EVENT(12)
	EVENT(13)
	EVENT(14)
	EVENT(15)
	EVENT(16)
	EVENT(17)
	EVENT(18)
	EVENT(19)
	EVENT(20)
	EVENT(21)
	EVENT(22)
	EVENT(23)
	EVENT(24)
	EVENT(25)
	EVENT(26)
	EVENT(27)
	EVENT(28)
	EVENT(29)
	EVENT(30)
	WORD  $0xD53B9D00      // MRS X0, PMCCNTR_EL0

done:
	MOVD R0, ret+8(FP)
	RET

// func readClock() uint64
// CNTVCT_EL0: the clock of the page's times on arm64.
TEXT ·readClock(SB), NOSPLIT, $0-8
	ISB  $15
	MRS  CNTVCT_EL0, R0
	MOVD R0, ret+0(FP)
	RET
