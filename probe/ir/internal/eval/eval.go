package eval

import (
	"encoding/binary"
	"math/bits"

	"github.com/borescope/borescope/probe/ir"
)

// This file defines the arithmetic. The interpreter and the constant folder use it. The code
// generator must agree with it, which the differential tests check in the kernel and against
// gcc.

// Norm returns a 64-bit pattern in the canonical form of a type: sign- or zero-extended from
// the type's width. Every scalar is kept in that form.
func Norm(t ir.Type, v uint64) uint64 {
	if t.Kind == ir.KindBool {
		return B2u(v != 0)
	}
	s := uint(64 - 8*t.Size)
	if t.Kind == ir.KindInt && t.Signed {
		return uint64(int64(v<<s) >> s)
	}
	return v << s >> s
}

// B2u returns 1 for true and 0 for false.
func B2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Arith computes a binary operation on canonical operands of type t.
func Arith(op ir.Op, t ir.Type, a, b uint64) uint64 {
	mask := uint64(8*t.Size - 1)
	switch op {
	case ir.OpAdd:
		return Norm(t, a+b)
	case ir.OpSub:
		return Norm(t, a-b)
	case ir.OpMul:
		return Norm(t, a*b)
	case ir.OpDiv, ir.OpMod:
		return Norm(t, divide(op, t.Signed, a, b))
	case ir.OpAnd:
		return a & b
	case ir.OpOr:
		return a | b
	case ir.OpXor:
		return a ^ b
	case ir.OpShl:
		return Norm(t, a<<(b&mask))
	case ir.OpShr:
		if t.Signed {
			return uint64(int64(a) >> (b & mask))
		}
		return a >> (b & mask)
	}
	return 0
}

// divide follows BPF's rules: x/0 is 0, x%0 is x, and the most negative number divided by -1
// wraps around.
func divide(op ir.Op, signed bool, a, b uint64) uint64 {
	if b == 0 {
		if op == ir.OpDiv {
			return 0
		}
		return a
	}
	if !signed {
		if op == ir.OpDiv {
			return a / b
		}
		return a % b
	}
	q, r := abs64(a)/abs64(b), abs64(a)%abs64(b)
	if op == ir.OpMod {
		if int64(a) < 0 {
			return -r
		}
		return r
	}
	if int64(a) < 0 != (int64(b) < 0) {
		return -q
	}
	return q
}

func abs64(v uint64) uint64 {
	if int64(v) < 0 {
		return -v
	}
	return v
}

// Compare returns the result of a comparison of canonical operands.
func Compare(op ir.Op, signed bool, a, b uint64) bool {
	less := a < b
	if signed {
		less = int64(a) < int64(b)
	}
	switch op {
	case ir.OpEq:
		return a == b
	case ir.OpNe:
		return a != b
	case ir.OpLt:
		return less
	case ir.OpLe:
		return less || a == b
	case ir.OpGt:
		return !less && a != b
	case ir.OpGe:
		return !less
	}
	return false
}

// Bswap reverses the bytes of a value of the given width.
func Bswap(t ir.Type, v uint64) uint64 {
	return Norm(t, bits.ReverseBytes64(v)>>uint(64-8*t.Size))
}

// HistBucket returns the bucket of a value in a log2 histogram, whose powers of two are each
// divided into 2^k buckets (0 <= k <= 5). It is 0 for negative values and n+1 for n below 2^k.
// Beyond, the leading one bit and the k bits after it decide. This is bpftrace's rule, and
// Log2Index of package hist.
func HistBucket(v int64, k int) int {
	if v < 0 {
		return 0
	}
	if v < 1<<k {
		return int(v) + 1
	}
	msb := bits.Len64(uint64(v)) - 1
	return 1 + ((msb-k+1)<<k | int(v>>(msb-k))&(1<<k-1))
}

// HistBuckets returns the number of buckets: the largest index plus one. It is Log2Size of
// package hist.
func HistBuckets(k int) int { return 1 + (63-k+1)<<k }

// LinearBucket returns the bucket of a value in a linear histogram: 0 for values below lo,
// the last one for hi and above. This is bpftrace's rule, and LinearIndex of package hist.
func LinearBucket(v, lo, hi, step int64) int {
	switch {
	case v < lo:
		return 0
	case v >= hi:
		return int(1 + (hi-lo)/step)
	}
	return int(1 + (v-lo)/step)
}

// LinearBuckets returns the number of buckets.
func LinearBuckets(lo, hi, step int64) int { return int(2 + (hi-lo)/step) }

// TextLen returns the number of bytes before the first NUL, or len(b) if there is none.
func TextLen(b []byte) int {
	for i, c := range b {
		if c == 0 {
			return i
		}
	}
	return len(b)
}

// Measure returns the number that represents an extreme in the kernel: it grows towards the
// extreme.
func Measure(smallest, signed bool, x uint64) uint64 {
	if signed {
		x ^= 1 << 63
	}
	if smallest {
		x = ^x
	}
	return x
}

// Frames returns the number of program counters in a stack, which end at the first 0.
func Frames(b []byte) int {
	for i := range len(b) / 8 {
		if binary.LittleEndian.Uint64(b[8*i:]) == 0 {
			return i
		}
	}
	return len(b) / 8
}
