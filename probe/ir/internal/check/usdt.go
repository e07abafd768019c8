package check

import (
	"fmt"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/usdt"
)

// operand is a USDT argument: its operand as expressions over registers and
// user memory, in the argument's size and signedness.
func (c *Checker) operand(a probe.Arg, t ir.Type) (*ir.Expr, error) {
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
	x, err := c.operandValue(op, raw)
	if err != nil {
		return nil, fmt.Errorf("argument %s (%s): %w", a.Name, op.Text, err)
	}
	if !t.Scalar() || a.Type == nil {
		t = raw
	}
	return convert(x, t)
}

func (c *Checker) operandValue(op *usdt.Arg, t ir.Type) (*ir.Expr, error) {
	switch op.Kind {
	case usdt.KindConst:
		return constOf(t, uint64(op.Const)), nil
	case usdt.KindReg:
		return c.operandReg(op.Reg, t)
	case usdt.KindAddr, usdt.KindMem:
		addr, err := c.operandAddr(&op.Addr)
		if err != nil || op.Kind == usdt.KindAddr {
			return addr, err
		}
		ptr, err := convert(addr, ir.PtrType(nil, true))
		if err != nil {
			return nil, err
		}
		return &ir.Expr{Op: ir.OpLoad, Type: t, Args: []*ir.Expr{ptr}}, nil
	}
	return nil, fmt.Errorf("operand %s", op.Kind)
}

// operandReg is a register, or the part of one that the operand names.
func (c *Checker) operandReg(r usdt.Reg, t ir.Type) (*ir.Expr, error) {
	if r.Class != usdt.ClassGeneral {
		return nil, fmt.Errorf("register %d is not general", r.Num)
	}
	if r.Shift == 0 {
		return c.register(int(r.Num), t)
	}
	x, err := c.register(int(r.Num), ir.Uint64Type())
	if err != nil {
		return nil, err
	}
	return convert(&ir.Expr{Op: ir.OpShr, Type: ir.Uint64Type(), Args: []*ir.Expr{x, constOf(ir.Uint64Type(), uint64(r.Shift))}}, t)
}

func (c *Checker) operandAddr(a *usdt.Addr) (*ir.Expr, error) {
	if a.Segment != usdt.SegmentNone || a.Symbol != "" && !a.Resolved {
		return nil, fmt.Errorf("its address is not known from the registers")
	}
	sum := constOf(ir.Uint64Type(), uint64(a.Disp))
	add := func(op ir.Op, x *ir.Expr, err error) error {
		if err != nil {
			return err
		}
		if IsConst(sum) && op == ir.OpAdd {
			sum, err = c.arith(&ir.Expr{Op: ir.OpAdd, Type: ir.Uint64Type()}, []*ir.Expr{x, sum})
		} else {
			sum, err = c.arith(&ir.Expr{Op: op, Type: ir.Uint64Type()}, []*ir.Expr{sum, x})
		}
		return err
	}
	if a.Base.Ok() {
		x, err := c.operandReg(a.Base, ir.Uint64Type())
		if err := add(ir.OpAdd, x, err); err != nil {
			return nil, err
		}
	}
	if a.PCRel {
		x, err := c.register(c.specialReg("ip"), ir.Uint64Type())
		if err := add(ir.OpAdd, x, err); err != nil {
			return nil, err
		}
	}
	if !a.Index.Ok() {
		return sum, nil
	}
	x, err := c.operandIndex(a)
	op := ir.OpAdd
	if a.IndexSub {
		op = ir.OpSub
	}
	if err := add(op, x, err); err != nil {
		return nil, err
	}
	return sum, nil
}

// operandIndex is the scaled index of an address.
func (c *Checker) operandIndex(a *usdt.Addr) (*ir.Expr, error) {
	t := ir.Uint64Type()
	if a.Index.Bytes < 8 {
		t = ir.IntType(int(a.Index.Bytes), a.IndexSigned)
	}
	x, err := c.operandReg(a.Index, t)
	if err != nil {
		return nil, err
	}
	if x, err = convert(x, ir.Uint64Type()); err != nil {
		return nil, err
	}
	return c.arith(&ir.Expr{Op: ir.OpMul, Type: ir.Uint64Type()}, []*ir.Expr{x, constOf(ir.Uint64Type(), uint64(max(a.Scale, 1)))})
}
