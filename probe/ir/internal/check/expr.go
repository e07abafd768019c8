package check

import (
	"errors"
	"fmt"
	"slices"

	"github.com/borescope/borescope/internal/ctype"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// convert converts e to a value of type to, or returns an error if that is not possible.
func convert(e *typed.Node, to ir.Type) (*typed.Node, error) {
	switch {
	case e.Type.Equal(to):
		return e, nil
	case e.Const() && to.Scalar():
		return constOf(to, uint64(e.Int)), nil
	case e.Type.Scalar() && to.Scalar():
		return typed.New(ir.OpCast, to, e), nil
	case e.Op == ir.OpString && to.Kind == ir.KindString && len(e.Str) < to.Size:
		return &typed.Node{Op: ir.OpString, Type: to, Str: e.Str}, nil
	case isText(e.Type) && to.Kind == ir.KindString ||
		e.Type.Kind == ir.KindBytes && to.Kind == ir.KindBytes:
		return convertMem(e, to)
	case e.Type.Kind == ir.KindString && to.Kind == ir.KindBytes:
		return convertMem(e, to)
	case e.Op == ir.OpTuple && to.Kind == ir.KindTuple && len(e.Args) == len(to.Fields):
		return convertTuple(e.Args, to)
	case to.Kind == ir.KindTuple && len(to.Fields) == 1:
		return convertTuple([]*typed.Node{e}, to)
	case e.Type.Kind == ir.KindPtr && to.Kind == ir.KindString && e.Type.Elem != nil &&
		ctype.IsChar(e.Type.Elem):
		return typed.New(ir.OpStr, to, e), nil
	}
	return nil, fmt.Errorf("%s is %s, not %s", shortString(e), e.Type, to)
}

func isText(t ir.Type) bool {
	return t.Kind == ir.KindString || t.Kind == ir.KindBytes && t.Size <= ir.MaxMemory
}

func convertMem(e *typed.Node, to ir.Type) (*typed.Node, error) {
	if e.Type.Size > to.Size && e.Op != ir.OpStr {
		return nil, fmt.Errorf("%s is %s and does not fit %s", shortString(e), e.Type, to)
	}
	if e.Op == ir.OpStr && to.Kind == ir.KindString {
		return typed.New(ir.OpStr, to, e.Args...), nil
	}
	if e.Type.Size > to.Size {
		return nil, fmt.Errorf("%s is %s and does not fit %s", shortString(e), e.Type, to)
	}
	return typed.New(ir.OpCast, to, e), nil
}

func convertTuple(args []*typed.Node, to ir.Type) (*typed.Node, error) {
	out := typed.New(ir.OpTuple, to, make([]*typed.Node, len(args))...)
	for i, a := range args {
		x, err := convert(a, to.Fields[i].Type)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		out.Args[i] = x
	}
	return out, nil
}

// promote returns the common type of two operands: 64 bits, unsigned if one of them is a
// pointer or an unsigned 64-bit integer. A constant takes the other operand's signedness.
func promote(a, b *typed.Node) (ir.Type, error) {
	for _, e := range []*typed.Node{a, b} {
		if !e.Type.Scalar() {
			return ir.Type{}, fmt.Errorf("%s is %s, not a number", shortString(e), e.Type)
		}
	}
	wide := func(e *typed.Node) bool {
		return !e.Untyped() && (e.Type.Kind == ir.KindPtr ||
			e.Type.Kind == ir.KindInt && e.Type.Size == 8 && !e.Type.Signed)
	}
	if wide(a) || wide(b) {
		return ir.Uint64Type(), nil
	}
	return ir.Int64Type(), nil
}

// arithType returns the type in which an operation on a and b is computed, if its result is
// to have the type want.
func arithType(op ir.Op, want ir.Type, a, b *typed.Node) (ir.Type, error) {
	switch want.Kind {
	case ir.KindAuto:
		if op == ir.OpShl || op == ir.OpShr {
			b = a
		}
		return promote(a, b)
	case ir.KindInt:
		return want, want.Valid()
	case ir.KindPtr:
		return ir.Uint64Type(), nil
	}
	return ir.Type{}, fmt.Errorf("arithmetic in %s", want)
}

// arith returns a binary operation on numbers, in the type want or, if that is the zero Type,
// the operands' common type.
func arith(op ir.Op, want ir.Type, a, b *typed.Node) (*typed.Node, error) {
	t, err := arithType(op, want, a, b)
	if err != nil {
		return nil, err
	}
	t.Format = want.Format
	loose := a.Untyped() && b.Untyped() && want.Kind == ir.KindAuto
	if a, err = convertNumber(a, t); err != nil {
		return nil, err
	}
	if b, err = convertNumber(b, t); err != nil {
		return nil, err
	}
	if a.Const() && b.Const() {
		k := constOf(t, eval.Arith(op, t, uint64(a.Int), uint64(b.Int)))
		k.Loose = loose
		return k, nil
	}
	out := typed.New(op, t, a, b)
	if want.Kind == ir.KindPtr {
		return convert(out, want)
	}
	return out, nil
}

func convertNumber(e *typed.Node, t ir.Type) (*typed.Node, error) {
	if !e.Type.Scalar() {
		return nil, fmt.Errorf("%s is %s, not a number", shortString(e), e.Type)
	}
	return convert(e, t)
}

func unary(op ir.Op, want ir.Type, a *typed.Node) (*typed.Node, error) {
	t, err := arithType(op, want, a, a)
	if err != nil {
		return nil, err
	}
	x, err := convertNumber(a, t)
	if err != nil {
		return nil, err
	}
	// -x is 0-x, and ~x is x^-1, so that later passes need not handle unary operations.
	if op == ir.OpNeg {
		return arith(ir.OpSub, t, keepUntyped(constOf(t, 0), a), keepUntyped(x, a))
	}
	return arith(ir.OpXor, t, x, constOf(t, ^uint64(0)))
}

// keepUntyped marks a constant as adaptable if the constant that it was made from is.
func keepUntyped(x, from *typed.Node) *typed.Node {
	if from.Untyped() && x.Const() {
		x.Loose = true
	}
	return x
}

// compareMem compares values in memory: text with text, and values of equal types.
func compareMem(op ir.Op, a, b *typed.Node) (*typed.Node, error) {
	a, b = asText(a), asText(b)
	text := a.Type.Kind == ir.KindString && b.Type.Kind == ir.KindString
	if !text && !a.Type.Equal(b.Type) {
		return nil, fmt.Errorf("comparison of %s with %s", a.Type, b.Type)
	}
	if op != ir.OpEq && op != ir.OpNe {
		return nil, fmt.Errorf("%s: only == and != compare it", a.Type)
	}
	if a.Op == ir.OpString && b.Op == ir.OpString {
		return constOf(ir.BoolType(), eval.B2u((a.Str == b.Str) == (op == ir.OpEq))), nil
	}
	if a.Op == ir.OpString || a.Op == ir.OpBytes {
		a, b = b, a
	}
	return typed.New(op, ir.BoolType(), a, b), nil
}

// asText reads the text behind a pointer to char. It returns other values unchanged.
func asText(e *typed.Node) *typed.Node {
	if e.Type.Kind == ir.KindPtr && e.Type.Elem != nil && ctype.IsChar(e.Type.Elem) {
		return typed.New(ir.OpStr, ir.StringType(ir.DefaultString), e)
	}
	return e
}

// truth converts e to a bool: a number is true if it is not zero.
func truth(e *typed.Node) (*typed.Node, error) {
	if e.Type.Kind == ir.KindBool {
		return e, nil
	}
	if !e.Type.Scalar() {
		return nil, fmt.Errorf("%s is %s, not a condition", shortString(e), e.Type)
	}
	return convert(e, ir.BoolType())
}

func logic(op ir.Op, args []*typed.Node) (*typed.Node, error) {
	out := typed.New(op, ir.BoolType(), make([]*typed.Node, len(args))...)
	for i, a := range args {
		x, err := truth(a)
		if err != nil {
			return nil, err
		}
		out.Args[i] = x
	}
	x := out.Args[0]
	switch {
	case !x.Const():
		return out, nil
	case op == ir.OpLNot:
		return constOf(ir.BoolType(), eval.B2u(x.Int == 0)), nil
	case (x.Int != 0) == (op == ir.OpLOr):
		return constOf(ir.BoolType(), eval.B2u(op == ir.OpLOr)), nil
	}
	return out.Args[1], nil
}

// cond returns a choice, of the type t or, if that is the zero Type, the common type of the
// alternatives.
func cond(t ir.Type, args []*typed.Node) (*typed.Node, error) {
	k, err := truth(args[0])
	if err != nil {
		return nil, err
	}
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
	if k.Const() {
		if k.Int != 0 {
			return a, nil
		}
		return b, nil
	}
	return typed.New(ir.OpCond, t, k, a, b), nil
}

// condType returns the common type of two alternatives.
func condType(a, b *typed.Node) (ir.Type, error) {
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

func (c *checker) cast(e *ir.Expr, a *typed.Node) (*typed.Node, error) {
	if e.Type.Kind != ir.KindPtr || e.Str == "" {
		return castTo(e.Type, a)
	}
	t, err := c.kernelType(e.Str)
	if err != nil {
		return nil, err
	}
	return castTo(ir.PtrType(t, e.Type.User), a)
}

func castTo(t ir.Type, a *typed.Node) (*typed.Node, error) {
	if err := t.Valid(); err != nil {
		return nil, err
	}
	switch {
	case !t.Equal(a.Type):
	case a.Op == ir.OpVar || a.Type.Kind == ir.KindPtr:
		return typed.New(ir.OpCast, t, a), nil
	default: // only names and formats change
		out := *a
		out.Type, out.Loose = t, false
		return &out, nil
	}
	if a.Type.Kind == ir.KindString && t.Kind == ir.KindString && a.Op != ir.OpString ||
		sameBits(a.Type, t) {
		return typed.New(ir.OpCast, t, a), nil
	}
	return convert(a, t)
}

func bswap(a *typed.Node) (*typed.Node, error) {
	if a.Type.Kind != ir.KindInt || a.Untyped() {
		return nil, fmt.Errorf("%s is %s: bswap needs an integer of known width", shortString(a), a.Type)
	}
	if a.Const() {
		return constOf(a.Type, eval.Bswap(a.Type, uint64(a.Int))), nil
	}
	if a.Type.Size == 1 {
		return a, nil
	}
	return typed.New(ir.OpBswap, a.Type, a), nil
}

// tuple returns a tuple of the type want or, if that is the zero Type, of the elements'
// types.
func tuple(want ir.Type, args []*typed.Node) (*typed.Node, error) {
	if want.Kind == ir.KindTuple {
		if err := want.Valid(); err != nil {
			return nil, err
		}
		if len(args) != len(want.Fields) {
			return nil, fmt.Errorf("%d elements for %s", len(args), want)
		}
		return convertTuple(args, want)
	}
	fields := make([]ir.Field, len(args))
	for i, a := range args {
		if a.Untyped() {
			a = constOf(ir.Int64Type(), uint64(a.Int))
		}
		args[i] = asText(a)
		fields[i].Type = args[i].Type
	}
	t := ir.TupleType(fields...)
	if t.Size > ir.MaxMemory {
		return nil, fmt.Errorf("tuple of %d bytes: the limit is %d", t.Size, ir.MaxMemory)
	}
	return typed.New(ir.OpTuple, t, args...), nil
}

// elem returns an element of a tuple, by its name or, if that is empty, its number.
func elem(name string, n int64, a *typed.Node) (*typed.Node, error) {
	if a.Type.Kind != ir.KindTuple {
		return nil, fmt.Errorf("%s is %s, not a tuple", shortString(a), a.Type)
	}
	i := n
	if name != "" {
		i = int64(slices.IndexFunc(a.Type.Fields, func(f ir.Field) bool { return f.Name == name }))
	}
	if i < 0 || i >= int64(len(a.Type.Fields)) {
		return nil, fmt.Errorf("%s has no element %q, %d", a.Type, name, n)
	}
	if a.Op == ir.OpTuple {
		return a.Args[i], nil
	}
	return &typed.Node{Op: ir.OpElem, Type: a.Type.Fields[i].Type, Args: []*typed.Node{a}, Int: i}, nil
}

// mapRead determines the type of a read of a map.
func (c *checker) mapRead(op ir.Op, m *ir.Map, args []*typed.Node) (*typed.Node, error) {
	readable := plainMap
	if op == ir.OpMapHas {
		readable = entryMap
	}
	if err := readable(m); err != nil {
		return nil, err
	}
	out := &typed.Node{Op: op, Type: m.Value, Map: m}
	if op == ir.OpMapHas {
		out.Type = ir.BoolType()
	}
	var key *typed.Node
	if len(args) > 0 {
		key = args[0]
	}
	key, err := c.keyOf(m, key)
	if err != nil {
		return nil, err
	}
	if key != nil {
		out.Args = []*typed.Node{key}
	}
	return out, nil
}

// keyOf converts a key with a type to the type of a map's keys.
func (c *checker) keyOf(m *ir.Map, key *typed.Node) (*typed.Node, error) {
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

// plainMap refuses maps that do not keep the values that statements store, such as
// aggregations and buffers.
func plainMap(m *ir.Map) error {
	if m != nil && m.Agg != ir.AggNone {
		return fmt.Errorf("map %s aggregates (%s) and cannot be read by the program", m.Name, m.Agg)
	}
	return entryMap(m)
}

// entryMap refuses maps of which a program cannot ask whether there is an entry: buffers, and
// aggregations that keep several entries for a key.
func entryMap(m *ir.Map) error {
	switch {
	case m == nil:
		return errors.New("missing map")
	case m.Agg == ir.AggHist, m.Agg == ir.AggLinear, m.Agg == ir.AggSeries:
		return fmt.Errorf("map %s is a %s, which has several entries for a key", m.Name, m.Agg)
	case ClassesOf(m) != nil:
		return fmt.Errorf("map %s keeps stacks by their lengths: use a tuple of the stack as its key", m.Name)
	case m.Kind == ir.MapRing || m.Kind == ir.MapPerf:
		return fmt.Errorf("map %s is a buffer", m.Name)
	}
	return nil
}
