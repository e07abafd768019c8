package check

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// comparison returns a comparison of the operands that e has. One with a constant that has the
// same result for all values of the other operand's type is an error.
func comparison(e *ir.Expr, a, b *typed.Node) (*typed.Node, error) {
	op := e.Op
	if !a.Type.Scalar() || !b.Type.Scalar() {
		return compareMem(op, a, b)
	}
	t, err := promote(a, b)
	if err != nil {
		return nil, err
	}
	if a.Type.Kind == ir.KindPtr && b.Type.Kind == ir.KindPtr {
		t = a.Type
	}
	x, err := convert(a, t)
	if err != nil {
		return nil, err
	}
	y, err := convert(b, t)
	if err != nil {
		return nil, err
	}
	switch {
	case x.Const() && y.Const():
		return constOf(ir.BoolType(), eval.B2u(eval.Compare(op, t.Signed, uint64(x.Int), uint64(y.Int)))),
			nil
	case y.Const():
		err = varies(op, a, b, e.Args[0], e.Str)
	case x.Const():
		err = varies(mirrored[op], b, a, e.Args[1], e.Str)
	}
	if err != nil {
		return nil, err
	}
	return typed.New(op, ir.BoolType(), x, y), nil
}

// mirrored are the comparisons with their operands exchanged.
var mirrored = map[ir.Op]ir.Op{
	ir.OpEq: ir.OpEq, ir.OpNe: ir.OpNe, ir.OpLt: ir.OpGt, ir.OpLe: ir.OpGe, ir.OpGt: ir.OpLt,
	ir.OpGe: ir.OpLe,
}

// words are the comparisons in messages.
var words = map[ir.Op]string{
	ir.OpEq: "", ir.OpNe: "different from ", ir.OpLt: "below ", ir.OpLe: "at most ",
	ir.OpGt: "above ", ir.OpGe: "at least ",
}

// varies returns an error if x op k has the same result for all values that x's type has. k is
// constant, and source is x as the program has it. hint is what the front end writes to make
// x signed: see ir.OpEq.
//
// If k has a type of its own, it may be any value that x has: a language whose compiler does
// not refuse "unsigned < 0" gives a constant the type in which it compares. Named values
// (enumerators, sizes) have types, too, and whether they are 0 may depend on the kernel.
func varies(op ir.Op, x, k *typed.Node, source *ir.Expr, hint string) error {
	r := rangeOf(x)
	n := number{neg: k.Int < 0 && (k.Loose || k.Type.Signed), bits: uint64(k.Int)}
	equality := op == ir.OpEq || op == ir.OpNe
	switch {
	case equality && x.Type.Size == 8 && n.neg:
		// As in C, -1 is equal to the largest unsigned number of 64 bits. An order of
		// unsigned and negative numbers, however, is never what is meant.
		return nil
	case r.low.neg && !n.neg && k.Int < 0:
		// A signed number and an unsigned constant of 64 bits are compared as unsigned ones.
		if !equality {
			return nil
		}
		n.neg = true
	}
	below, above := n.less(r.low), r.high.less(n)
	if !k.Loose && !below && !above {
		return nil
	}
	never, always := false, false
	switch op {
	case ir.OpEq:
		never = below || above
	case ir.OpNe:
		always = below || above
	case ir.OpLt:
		never, always = !r.low.less(n), above
	case ir.OpGe:
		never, always = above, !r.low.less(n)
	case ir.OpGt:
		never, always = !n.less(r.high), below
	case ir.OpLe:
		never, always = below, !n.less(r.high)
	}
	how := "never"
	switch {
	case always:
		how = "always"
	case !never:
		return nil
	}
	msg := fmt.Sprintf("%s is %s: it is %s %s%s", shortString(source), r, how, words[op], n)
	if hint != "" && r.bits == 64 && !r.low.neg && (n.neg || n == r.low) {
		msg += "; " + strings.ReplaceAll(hint, "%s", shortString(source)) + " is signed"
	}
	return errors.New(msg)
}

// number is an integer of 65 bits: signed and unsigned numbers in one order.
type number struct {
	neg  bool // then bits is in two's complement
	bits uint64
}

func (n number) less(m number) bool {
	if n.neg != m.neg {
		return n.neg
	}
	return n.bits < m.bits
}

func (n number) String() string {
	if n.neg {
		return strconv.FormatInt(int64(n.bits), 10)
	}
	return strconv.FormatUint(n.bits, 10)
}

// valueRange is the range of a type's values, or of a bit field's.
type valueRange struct {
	low, high number
	bits      int
	what      string
}

// String returns "an unsigned number of 8 bits, 0 to 255".
func (r valueRange) String() string {
	if r.bits == 64 {
		return r.what
	}
	return fmt.Sprintf("%s, %v to %v", r.what, r.low, r.high)
}

// rangeOf returns the range of the values that the type of x has.
func rangeOf(x *typed.Node) valueRange {
	bits := x.Type.Size * 8
	switch {
	case x.Type.Kind == ir.KindBool:
		return valueRange{high: number{bits: 1}, bits: 1, what: "a bool"}
	case x.Bits != nil:
		bits = 64 - int(x.Bits.Shr)
	}
	what := fmt.Sprintf("number of %d bits", bits)
	if x.Type.Kind == ir.KindInt && x.Type.Signed {
		top := uint64(1) << (bits - 1)
		return valueRange{number{true, -top}, number{bits: top - 1}, bits, "a signed " + what}
	}
	r := valueRange{high: number{bits: math.MaxUint64 >> (64 - bits)}, bits: bits}
	r.what = "an unsigned " + what
	if x.Type.Kind == ir.KindPtr {
		r.what = "an address"
	}
	return r
}
