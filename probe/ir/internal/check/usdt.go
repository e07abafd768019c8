package check

import (
	"fmt"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/typed"
	"github.com/borescope/borescope/usdt"
)

// operand returns a USDT argument: its operand as expressions with registers and user memory,
// in the argument's size and signedness.
func (l *locator) operand(a probe.Arg, t ir.Type) (*typed.Node, error) {
	op := a.Loc.Operand
	if op == nil {
		return nil, fmt.Errorf("argument %s: no operand", a.Name)
	}
	if op.Reason != usdt.ReasonNone {
		return nil, fmt.Errorf("argument %s (%s): %s", a.Name, op.Text, op.Reason)
	}
	if op.Float || op.Size != 1 && op.Size != 2 && op.Size != 4 && op.Size != 8 {
		return nil, fmt.Errorf("argument %s (%s): no integer of 1, 2, 4 or 8 bytes", a.Name, op.Text)
	}
	raw := ir.IntType(op.Size, op.Signed)
	x, err := l.operandValue(op, raw)
	if err != nil {
		return nil, fmt.Errorf("argument %s (%s): %w", a.Name, op.Text, err)
	}
	if !t.Scalar() || a.Type == nil {
		t = raw
	}
	return convert(x, t)
}

func (l *locator) operandValue(op *usdt.Arg, t ir.Type) (*typed.Node, error) {
	switch op.Kind {
	case usdt.KindConst:
		return constOf(t, uint64(op.Const)), nil
	case usdt.KindReg:
		return l.operandReg(op.Reg, t)
	case usdt.KindAddr, usdt.KindMem:
		addr, err := l.operandAddr(&op.Addr)
		if err != nil || op.Kind == usdt.KindAddr {
			return addr, err
		}
		ptr, err := convert(addr, ir.PtrType(nil, true))
		if err != nil {
			return nil, err
		}
		return typed.NewLoad(t, ptr, 0), nil
	}
	return nil, fmt.Errorf("operand %s", op.Kind)
}

// operandReg returns a register, or the part of it that the operand names.
func (l *locator) operandReg(r usdt.Reg, t ir.Type) (*typed.Node, error) {
	if r.Class != usdt.ClassGeneral {
		return nil, fmt.Errorf("register %d is not general", r.Num)
	}
	if r.Shift == 0 {
		return l.register(int(r.Num), t)
	}
	x, err := l.register(int(r.Num), ir.Uint64Type())
	if err != nil {
		return nil, err
	}
	return convert(typed.New(ir.OpShr, ir.Uint64Type(), x, constOf(ir.Uint64Type(), uint64(r.Shift))),
		t)
}

func (l *locator) operandAddr(a *usdt.Addr) (*typed.Node, error) {
	if a.Segment != usdt.SegmentNone || a.Symbol != "" && !a.Resolved {
		return nil, fmt.Errorf("its address is not known from the registers")
	}
	sum := constOf(ir.Uint64Type(), uint64(a.Disp))
	add := func(op ir.Op, x *typed.Node, err error) error {
		if err != nil {
			return err
		}
		if sum.Const() && op == ir.OpAdd {
			sum, err = arith(op, ir.Uint64Type(), x, sum)
		} else {
			sum, err = arith(op, ir.Uint64Type(), sum, x)
		}
		return err
	}
	if a.Base.Ok() {
		x, err := l.operandReg(a.Base, ir.Uint64Type())
		if err := add(ir.OpAdd, x, err); err != nil {
			return nil, err
		}
	}
	if a.PCRel {
		x, err := l.register(l.specialReg("ip"), ir.Uint64Type())
		if err := add(ir.OpAdd, x, err); err != nil {
			return nil, err
		}
	}
	if !a.Index.Ok() {
		return sum, nil
	}
	x, err := l.operandIndex(a)
	op := ir.OpAdd
	if a.IndexSub {
		op = ir.OpSub
	}
	if err := add(op, x, err); err != nil {
		return nil, err
	}
	return sum, nil
}

// operandIndex returns the scaled index of an address.
func (l *locator) operandIndex(a *usdt.Addr) (*typed.Node, error) {
	t := ir.Uint64Type()
	if a.Index.Bytes < 8 {
		t = ir.IntType(int(a.Index.Bytes), a.IndexSigned)
	}
	x, err := l.operandReg(a.Index, t)
	if err != nil {
		return nil, err
	}
	if x, err = convert(x, ir.Uint64Type()); err != nil {
		return nil, err
	}
	return arith(ir.OpMul, ir.Uint64Type(), x, constOf(ir.Uint64Type(), uint64(max(a.Scale, 1))))
}
