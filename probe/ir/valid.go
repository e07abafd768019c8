package ir

import (
	"errors"
	"fmt"
)

// MaxDepth bounds the nesting of expressions and statements, so that a program from a hostile
// front end cannot exhaust the stack.
const MaxDepth = 200

// MaxMemory bounds one value in memory, in bytes, to what a value of a per-CPU map may have.
const MaxMemory = 32 << 10

func validScalar(t Type) error {
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

// Valid returns an error if a type made by a front end is wrong.
func (t Type) Valid() error { return t.valid(0) }

func (t Type) valid(depth int) error {
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
			if err := f.Type.valid(depth + 1); err != nil {
				return err
			}
			if f.Offset < end || f.Offset%f.Type.Align() != 0 || f.Offset+f.Type.Size > t.Size {
				return fmt.Errorf("%s: element at offset %d", t, f.Offset)
			}
			end = f.Offset + f.Type.Size
		}
		return nil
	}
	return validScalar(t)
}
