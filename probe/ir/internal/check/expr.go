package check

import (
	"errors"
	"fmt"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/ctype"
	"github.com/borescope/borescope/probe/ir/internal/eval"
)

// convert makes e a value of type to, or says why it cannot be one.
func convert(e *ir.Expr, to ir.Type) (*ir.Expr, error) {
	switch {
	case e.Type.Equal(to):
		return e, nil
	case IsConst(e) && to.Scalar():
		return constOf(to, uint64(e.Int)), nil
	case e.Type.Scalar() && to.Scalar():
		return &ir.Expr{Op: ir.OpCast, Type: to, Args: []*ir.Expr{e}, Pos: e.Pos}, nil
	case e.Op == ir.OpString && to.Kind == ir.KindString && len(e.Str) < to.Size:
		return &ir.Expr{Op: ir.OpString, Type: to, Str: e.Str, Pos: e.Pos}, nil
	case isText(e.Type) && to.Kind == ir.KindString || e.Type.Kind == ir.KindBytes && to.Kind == ir.KindBytes:
		return convertMem(e, to)
	case e.Type.Kind == ir.KindString && to.Kind == ir.KindBytes:
		return convertMem(e, to)
	case e.Op == ir.OpTuple && to.Kind == ir.KindTuple && len(e.Args) == len(to.Fields):
		return convertTuple(e, to)
	case to.Kind == ir.KindTuple && len(to.Fields) == 1:
		return convertTuple(&ir.Expr{Op: ir.OpTuple, Args: []*ir.Expr{e}, Pos: e.Pos}, to)
	case e.Type.Kind == ir.KindPtr && to.Kind == ir.KindString && e.Type.Elem != nil && ctype.IsChar(e.Type.Elem):
		return &ir.Expr{Op: ir.OpStr, Type: to, Args: []*ir.Expr{e}, Pos: e.Pos}, nil
	}
	return nil, fmt.Errorf("%s is %s, not %s", shortString(e), e.Type, to)
}

func isText(t ir.Type) bool {
	return t.Kind == ir.KindString || t.Kind == ir.KindBytes && t.Size <= ir.MaxMemory
}

func convertMem(e *ir.Expr, to ir.Type) (*ir.Expr, error) {
	if e.Type.Size > to.Size && e.Op != ir.OpStr {
		return nil, fmt.Errorf("%s is %s and does not fit %s", shortString(e), e.Type, to)
	}
	if e.Op == ir.OpStr && to.Kind == ir.KindString {
		return &ir.Expr{Op: ir.OpStr, Type: to, Args: e.Args, Pos: e.Pos}, nil
	}
	if e.Type.Size > to.Size {
		return nil, fmt.Errorf("%s is %s and does not fit %s", shortString(e), e.Type, to)
	}
	return &ir.Expr{Op: ir.OpCast, Type: to, Args: []*ir.Expr{e}, Pos: e.Pos}, nil
}

func convertTuple(e *ir.Expr, to ir.Type) (*ir.Expr, error) {
	out := &ir.Expr{Op: ir.OpTuple, Type: to, Args: make([]*ir.Expr, len(e.Args)), Pos: e.Pos}
	for i, a := range e.Args {
		x, err := convert(a, to.Fields[i].Type)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		out.Args[i] = x
	}
	return out, nil
}

// promote is the type in which two operands meet: 64 bits, unsigned if one of
// them is a pointer or an unsigned 64-bit integer. A constant takes the other
// operand's signedness.
func promote(a, b *ir.Expr) (ir.Type, error) {
	for _, e := range []*ir.Expr{a, b} {
		if !e.Type.Scalar() {
			return ir.Type{}, fmt.Errorf("%s is %s, not a number", shortString(e), e.Type)
		}
	}
	wide := func(e *ir.Expr) bool {
		return !untyped(e) && (e.Type.Kind == ir.KindPtr || e.Type.Kind == ir.KindInt && e.Type.Size == 8 && !e.Type.Signed)
	}
	if wide(a) || wide(b) {
		return ir.Uint64Type(), nil
	}
	return ir.Int64Type(), nil
}

// arithType is the type that an arithmetic node computes in.
func arithType(e *ir.Expr, args []*ir.Expr) (ir.Type, error) {
	if e.Type.Kind == ir.KindAuto {
		if e.Op == ir.OpShl || e.Op == ir.OpShr {
			return promote(args[0], args[0])
		}
		return promote(args[0], args[1])
	}
	if e.Type.Kind != ir.KindInt {
		if e.Type.Kind == ir.KindPtr {
			return ir.Uint64Type(), nil
		}
		return ir.Type{}, fmt.Errorf("arithmetic in %s", e.Type)
	}
	return e.Type, validScalar(e.Type)
}

func (c *Checker) arith(e *ir.Expr, args []*ir.Expr) (*ir.Expr, error) {
	t, err := arithType(e, args)
	if err != nil {
		return nil, err
	}
	t.Format = e.Type.Format
	a, err := convertNumber(args[0], t)
	if err != nil {
		return nil, err
	}
	b, err := convertNumber(args[1], t)
	if err != nil {
		return nil, err
	}
	if IsConst(a) && IsConst(b) {
		k := constOf(t, eval.Arith(e.Op, t, uint64(a.Int), uint64(b.Int)))
		if untyped(args[0]) && untyped(args[1]) && e.Type.Kind == ir.KindAuto {
			k.Loose = true
		}
		return k, nil
	}
	out := &ir.Expr{Op: e.Op, Type: t, Args: []*ir.Expr{a, b}, Pos: e.Pos}
	if e.Type.Kind == ir.KindPtr {
		return convert(out, e.Type)
	}
	return out, nil
}

func convertNumber(e *ir.Expr, t ir.Type) (*ir.Expr, error) {
	if !e.Type.Scalar() {
		return nil, fmt.Errorf("%s is %s, not a number", shortString(e), e.Type)
	}
	return convert(e, t)
}

func (c *Checker) unary(e, a *ir.Expr) (*ir.Expr, error) {
	t, err := arithType(&ir.Expr{Op: ir.OpAdd, Type: e.Type}, []*ir.Expr{a, a})
	if err != nil {
		return nil, err
	}
	x, err := convertNumber(a, t)
	if err != nil {
		return nil, err
	}
	// -x is 0-x, and ~x is x^-1: one less thing to get wrong everywhere.
	if e.Op == ir.OpNeg {
		return c.arith(&ir.Expr{Op: ir.OpSub, Type: t, Pos: e.Pos}, []*ir.Expr{keepUntyped(constOf(t, 0), a), keepUntyped(x, a)})
	}
	return c.arith(&ir.Expr{Op: ir.OpXor, Type: t, Pos: e.Pos}, []*ir.Expr{x, constOf(t, ^uint64(0))})
}

// keepUntyped marks a constant as adaptable where the one it came from was.
func keepUntyped(x, from *ir.Expr) *ir.Expr {
	if untyped(from) && IsConst(x) {
		x.Loose = true
	}
	return x
}

func (c *Checker) comparison(e *ir.Expr, args []*ir.Expr) (*ir.Expr, error) {
	a, b := args[0], args[1]
	if !a.Type.Scalar() || !b.Type.Scalar() {
		return c.compareMem(e, a, b)
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
	if IsConst(x) && IsConst(y) {
		return constOf(ir.BoolType(), eval.B2u(eval.Compare(e.Op, t.Signed, uint64(x.Int), uint64(y.Int)))), nil
	}
	return &ir.Expr{Op: e.Op, Type: ir.BoolType(), Args: []*ir.Expr{x, y}, Pos: e.Pos}, nil
}

// compareMem compares values in memory: text with text, and equal types.
func (c *Checker) compareMem(e, a, b *ir.Expr) (*ir.Expr, error) {
	a, b = asText(a), asText(b)
	text := a.Type.Kind == ir.KindString && b.Type.Kind == ir.KindString
	if !text && !a.Type.Equal(b.Type) {
		return nil, fmt.Errorf("comparison of %s with %s", a.Type, b.Type)
	}
	if e.Op != ir.OpEq && e.Op != ir.OpNe {
		return nil, fmt.Errorf("%s: only == and != compare it", a.Type)
	}
	if a.Op == ir.OpString && b.Op == ir.OpString {
		return constOf(ir.BoolType(), eval.B2u((a.Str == b.Str) == (e.Op == ir.OpEq))), nil
	}
	if a.Op == ir.OpString || a.Op == ir.OpBytes {
		a, b = b, a
	}
	return &ir.Expr{Op: e.Op, Type: ir.BoolType(), Args: []*ir.Expr{a, b}, Pos: e.Pos}, nil
}

// asText reads the text behind a pointer to char where text is wanted.
func asText(e *ir.Expr) *ir.Expr {
	if e.Type.Kind == ir.KindPtr && e.Type.Elem != nil && ctype.IsChar(e.Type.Elem) {
		return &ir.Expr{Op: ir.OpStr, Type: ir.StringType(ir.DefaultString), Args: []*ir.Expr{e}, Pos: e.Pos}
	}
	return e
}

// truth makes e a bool: a number is true if it is not zero.
func truth(e *ir.Expr) (*ir.Expr, error) {
	if e.Type.Kind == ir.KindBool {
		return e, nil
	}
	if !e.Type.Scalar() {
		return nil, fmt.Errorf("%s is %s, not a condition", shortString(e), e.Type)
	}
	return convert(e, ir.BoolType())
}

func (c *Checker) logic(e *ir.Expr, args []*ir.Expr) (*ir.Expr, error) {
	out := &ir.Expr{Op: e.Op, Type: ir.BoolType(), Args: make([]*ir.Expr, len(args)), Pos: e.Pos}
	for i, a := range args {
		x, err := truth(a)
		if err != nil {
			return nil, err
		}
		out.Args[i] = x
	}
	x := out.Args[0]
	switch {
	case !IsConst(x):
		return out, nil
	case e.Op == ir.OpLNot:
		return constOf(ir.BoolType(), eval.B2u(x.Int == 0)), nil
	case (x.Int != 0) == (e.Op == ir.OpLOr):
		return constOf(ir.BoolType(), eval.B2u(e.Op == ir.OpLOr)), nil
	}
	return out.Args[1], nil
}

func (c *Checker) cond(e *ir.Expr, args []*ir.Expr) (*ir.Expr, error) {
	k, err := truth(args[0])
	if err != nil {
		return nil, err
	}
	t := e.Type
	if t.Kind == ir.KindAuto {
		if t, err = condType(args[1], args[2]); err != nil {
			return nil, err
		}
	}
	a, err := convert(args[1], t)
	if err != nil {
		return nil, err
	}
	b, err := convert(args[2], t)
	if err != nil {
		return nil, err
	}
	if IsConst(k) {
		if k.Int != 0 {
			return a, nil
		}
		return b, nil
	}
	return &ir.Expr{Op: ir.OpCond, Type: t, Args: []*ir.Expr{k, a, b}, Pos: e.Pos}, nil
}

// condType is the common type of two alternatives.
func condType(a, b *ir.Expr) (ir.Type, error) {
	switch {
	case a.Type.Equal(b.Type):
		return a.Type, nil
	case a.Type.Scalar() && b.Type.Scalar():
		return promote(a, b)
	case a.Type.Kind == ir.KindString && b.Type.Kind == ir.KindString:
		return ir.StringType(max(a.Type.Size, b.Type.Size)), nil
	}
	return ir.Type{}, fmt.Errorf("alternatives of %s and %s", a.Type, b.Type)
}

func (c *Checker) cast(e, a *ir.Expr) (*ir.Expr, error) {
	if e.Type.Kind == ir.KindPtr && e.Str != "" {
		t, err := c.kernelType(e.Str)
		if err != nil {
			return nil, err
		}
		return c.cast(&ir.Expr{Op: ir.OpCast, Type: ir.PtrType(t, e.Type.User), Pos: e.Pos}, a)
	}
	if err := e.Type.Valid(); err != nil {
		return nil, err
	}
	if e.Type.Equal(a.Type) { // a change of meaning only
		out := *a
		out.Loose = false
		if a.Op == ir.OpVar || a.Type.Kind == ir.KindPtr {
			return &ir.Expr{Op: ir.OpCast, Type: e.Type, Args: []*ir.Expr{a}, Pos: e.Pos}, nil
		}
		out.Type = e.Type
		return &out, nil
	}
	if a.Type.Kind == ir.KindString && e.Type.Kind == ir.KindString && a.Op != ir.OpString || sameBits(a.Type, e.Type) {
		return &ir.Expr{Op: ir.OpCast, Type: e.Type, Args: []*ir.Expr{a}, Pos: e.Pos}, nil
	}
	x, err := convert(a, e.Type)
	if err != nil {
		return nil, err
	}
	if x == a {
		out := *x
		out.Type, out.Loose = e.Type, false
		return &out, nil
	}
	return x, nil
}

func (c *Checker) bswap(e, a *ir.Expr) (*ir.Expr, error) {
	if a.Type.Kind != ir.KindInt || untyped(a) {
		return nil, fmt.Errorf("%s is %s: bswap needs an integer of known width", shortString(a), a.Type)
	}
	if IsConst(a) {
		return constOf(a.Type, eval.Bswap(a.Type, uint64(a.Int))), nil
	}
	if a.Type.Size == 1 {
		return a, nil
	}
	return &ir.Expr{Op: ir.OpBswap, Type: a.Type, Args: []*ir.Expr{a}, Pos: e.Pos}, nil
}

func (c *Checker) tuple(e *ir.Expr, args []*ir.Expr) (*ir.Expr, error) {
	if e.Op == ir.OpElem {
		return c.elem(e, args[0])
	}
	if e.Type.Kind == ir.KindTuple {
		if err := e.Type.Valid(); err != nil {
			return nil, err
		}
		if len(args) != len(e.Type.Fields) {
			return nil, fmt.Errorf("%d elements for %s", len(args), e.Type)
		}
		return convertTuple(&ir.Expr{Op: ir.OpTuple, Args: args, Pos: e.Pos}, e.Type)
	}
	fields := make([]ir.Field, len(args))
	for i, a := range args {
		if untyped(a) {
			a = constOf(ir.Int64Type(), uint64(a.Int))
		}
		args[i] = asText(a)
		fields[i].Type = args[i].Type
	}
	t := ir.TupleType(fields...)
	if t.Size > ir.MaxMemory {
		return nil, fmt.Errorf("tuple of %d bytes: at most %d", t.Size, ir.MaxMemory)
	}
	return &ir.Expr{Op: ir.OpTuple, Type: t, Args: args, Pos: e.Pos}, nil
}

func (c *Checker) elem(e, a *ir.Expr) (*ir.Expr, error) {
	if a.Type.Kind != ir.KindTuple {
		return nil, fmt.Errorf("%s is %s, not a tuple", shortString(a), a.Type)
	}
	i := int(e.Int)
	if e.Str != "" {
		i = -1
		for n, f := range a.Type.Fields {
			if f.Name == e.Str {
				i = n
			}
		}
	}
	if i < 0 || i >= len(a.Type.Fields) {
		return nil, fmt.Errorf("%s has no element %q, %d", a.Type, e.Str, e.Int)
	}
	if a.Op == ir.OpTuple {
		return a.Args[i], nil
	}
	return &ir.Expr{Op: ir.OpElem, Type: a.Type.Fields[i].Type, Args: []*ir.Expr{a}, Int: int64(i), Pos: e.Pos}, nil
}

// mapRead types a read of a map.
func (c *Checker) mapRead(e *ir.Expr, args []*ir.Expr) (*ir.Expr, error) {
	if err := plainMap(e.Map); err != nil {
		return nil, err
	}
	out := &ir.Expr{Op: e.Op, Type: e.Map.Value, Map: e.Map, Pos: e.Pos}
	if e.Op == ir.OpMapHas {
		out.Type = ir.BoolType()
	}
	var key *ir.Expr
	if len(args) > 0 {
		key = args[0]
	}
	key, err := c.keyOf(e.Map, key)
	if err != nil {
		return nil, err
	}
	if key != nil {
		out.Args = []*ir.Expr{key}
	}
	return out, nil
}

// keyOf converts a typed key to a map's.
func (c *Checker) keyOf(m *ir.Map, key *ir.Expr) (*ir.Expr, error) {
	if Storage(m) {
		if err := c.storage(m); err != nil {
			return nil, err
		}
	}
	switch {
	case m.Keyless() && key == nil:
		return nil, nil
	case m.Keyless():
		return nil, fmt.Errorf("map %s has no keys", m.Name)
	case key == nil:
		return nil, fmt.Errorf("map %s needs a key of %s", m.Name, m.Key)
	}
	k, err := convert(key, m.Key)
	if err != nil {
		return nil, fmt.Errorf("key of %s: %w", m.Name, err)
	}
	return k, nil
}

// plainMap refuses maps whose values are not what statements put in.
func plainMap(m *ir.Map) error {
	switch {
	case m == nil:
		return errors.New("missing map")
	case m.Agg != ir.AggNone:
		return fmt.Errorf("map %s aggregates (%s) and cannot be read by the program", m.Name, m.Agg)
	case m.Kind == ir.MapRing || m.Kind == ir.MapPerf:
		return fmt.Errorf("map %s is a buffer", m.Name)
	}
	return nil
}
