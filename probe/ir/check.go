package ir

import (
	"errors"
	"fmt"
)

// MaxDepth bounds the nesting of expressions and statements, so that a
// program made by a hostile front end cannot exhaust the stack.
const MaxDepth = 200

// arity is the number of operands by operation, least and most.
func arity(op Op) (least, most int) {
	switch op {
	case OpConst, OpString, OpVar, OpBuiltin, OpArg, OpField, OpRet, OpReg, OpKaddr, OpKstack, OpUstack,
		OpUstackWalk, OpUaddr, OpBytes, OpEnum, OpSizeof:
		return 0, 0
	case OpNeg, OpNot, OpLNot, OpCast, OpBswap, OpDeref, OpMember, OpOffset, OpKptr, OpUptr, OpSocketCookie, OpPath, OpTaskPID, OpTaskTID,
		OpHasPrefix, OpGlob, OpLen, OpElem:
		return 1, 1
	case OpCond:
		return 3, 3
	case OpTuple:
		return 1, 256
	case OpBuf, OpStr, OpAddrOf, OpContains, OpIndexOf, OpMapCPU:
		return 1, 2
	case OpMapGet, OpMapHas:
		return 0, 1
	case OpCtx:
		return 0, 0
	case OpLoad:
		return 1, 1
	}
	return 2, 2
}

func CheckArity(e *Expr) error {
	if e.Op == OpInvalid && e.Str != "" {
		return errors.New(e.Str)
	}
	if e.Op == OpInvalid || e.Op >= OpLoad {
		return fmt.Errorf("no such operation: %d", e.Op)
	}
	least, most := arity(e.Op)
	if n := len(e.Args); n < least || n > most {
		return fmt.Errorf("%d operands", n)
	}
	return nil
}

// MaxMemory bounds one value in memory: a per-CPU map's value is at most 32 KiB.
const MaxMemory = 8192

func ValidScalar(t Type) error {
	switch t.Kind {
	case KindInt:
		if t.Size != 1 && t.Size != 2 && t.Size != 4 && t.Size != 8 {
			return fmt.Errorf("integer of %d bytes", t.Size)
		}
		return nil
	case KindBool:
		if t.Size == 1 {
			return nil
		}
	case KindPtr:
		if t.Size == 8 {
			return nil
		}
	}
	return fmt.Errorf("%s is not a number", t)
}

// ValidType checks a type that a front end made.
func ValidType(t Type, depth int) error {
	switch {
	case depth > 8:
		return errors.New("type nested more than 8 deep")
	case t.Kind == KindString || t.Kind == KindBytes:
		if t.Size < 1 || t.Size > MaxMemory {
			return fmt.Errorf("%s: size must be 1 to %d", t, MaxMemory)
		}
		return nil
	case t.Kind == KindTuple:
		if len(t.Fields) == 0 || t.Size > MaxMemory {
			return fmt.Errorf("%s: size must be 1 to %d", t, MaxMemory)
		}
		end := 0
		for _, f := range t.Fields {
			if err := ValidType(f.Type, depth+1); err != nil {
				return err
			}
			if f.Offset < end || f.Offset%f.Type.Align() != 0 || f.Offset+f.Type.Size > t.Size {
				return fmt.Errorf("%s: element at offset %d", t, f.Offset)
			}
			end = f.Offset + f.Type.Size
		}
		return nil
	}
	return ValidScalar(t)
}

// DefaultFrames is how many frames a stack has for which nobody gave a number:
// PERF_MAX_STACK_DEPTH, which is the most that the kernel's walker gives.
const DefaultFrames = 127

// StackType is the type of a stack of n frames.
func StackType(op Op, n int64) Type {
	if op != OpKstack {
		return BytesType(int(n) * 8).WithFormat(FormatUstack)
	}
	return BytesType(int(n) * 8).WithFormat(FormatKstack)
}
