package action

import (
	"errors"
	"fmt"
)

// convert makes e a value of type to, or says why it cannot be one.
func convert(e *Expr, to Type) (*Expr, error) {
	switch {
	case e.Type.Equal(to):
		return e, nil
	case isConst(e) && to.Scalar():
		return constOf(to, uint64(e.Int)), nil
	case e.Type.Scalar() && to.Scalar():
		return &Expr{Op: OpCast, Type: to, Args: []*Expr{e}, Pos: e.Pos}, nil
	case e.Op == OpString && to.Kind == KindString && len(e.Str) < to.Size:
		return &Expr{Op: OpString, Type: to, Str: e.Str, Pos: e.Pos}, nil
	case isText(e.Type) && to.Kind == KindString || e.Type.Kind == KindBytes && to.Kind == KindBytes:
		return convertMem(e, to)
	case e.Type.Kind == KindString && to.Kind == KindBytes:
		return convertMem(e, to)
	case e.Op == OpTuple && to.Kind == KindTuple && len(e.Args) == len(to.Fields):
		return convertTuple(e, to)
	case to.Kind == KindTuple && len(to.Fields) == 1:
		return convertTuple(&Expr{Op: OpTuple, Args: []*Expr{e}, Pos: e.Pos}, to)
	case e.Type.Kind == KindPtr && to.Kind == KindString && e.Type.Elem != nil && isChar(e.Type.Elem):
		return &Expr{Op: OpStr, Type: to, Args: []*Expr{e}, Pos: e.Pos}, nil
	}
	return nil, fmt.Errorf("%s is %s, not %s", shortString(e), e.Type, to)
}

func isText(t Type) bool { return t.Kind == KindString || t.Kind == KindBytes && t.Size <= maxMemory }

func convertMem(e *Expr, to Type) (*Expr, error) {
	if e.Type.Size > to.Size && e.Op != OpStr {
		return nil, fmt.Errorf("%s is %s and does not fit %s", shortString(e), e.Type, to)
	}
	if e.Op == OpStr && to.Kind == KindString {
		return &Expr{Op: OpStr, Type: to, Args: e.Args, Pos: e.Pos}, nil
	}
	if e.Type.Size > to.Size {
		return nil, fmt.Errorf("%s is %s and does not fit %s", shortString(e), e.Type, to)
	}
	return &Expr{Op: OpCast, Type: to, Args: []*Expr{e}, Pos: e.Pos}, nil
}

func convertTuple(e *Expr, to Type) (*Expr, error) {
	out := &Expr{Op: OpTuple, Type: to, Args: make([]*Expr, len(e.Args)), Pos: e.Pos}
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
func promote(a, b *Expr) (Type, error) {
	for _, e := range []*Expr{a, b} {
		if !e.Type.Scalar() {
			return Type{}, fmt.Errorf("%s is %s, not a number", shortString(e), e.Type)
		}
	}
	wide := func(e *Expr) bool {
		return !untyped(e) && (e.Type.Kind == KindPtr || e.Type.Kind == KindInt && e.Type.Size == 8 && !e.Type.Signed)
	}
	if wide(a) || wide(b) {
		return Uint64Type(), nil
	}
	return Int64Type(), nil
}

// arithType is the type that an arithmetic node computes in.
func arithType(e *Expr, args []*Expr) (Type, error) {
	if e.Type.Kind == KindAuto {
		if e.Op == OpShl || e.Op == OpShr {
			return promote(args[0], args[0])
		}
		return promote(args[0], args[1])
	}
	if e.Type.Kind != KindInt {
		if e.Type.Kind == KindPtr {
			return Uint64Type(), nil
		}
		return Type{}, fmt.Errorf("arithmetic in %s", e.Type)
	}
	return e.Type, validScalar(e.Type)
}

func (c *checker) arith(e *Expr, args []*Expr) (*Expr, error) {
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
	if isConst(a) && isConst(b) {
		k := constOf(t, arith(e.Op, t, uint64(a.Int), uint64(b.Int)))
		if untyped(args[0]) && untyped(args[1]) && e.Type.Kind == KindAuto {
			k.loose = true
		}
		return k, nil
	}
	out := &Expr{Op: e.Op, Type: t, Args: []*Expr{a, b}, Pos: e.Pos}
	if e.Type.Kind == KindPtr {
		return convert(out, e.Type)
	}
	return out, nil
}

func convertNumber(e *Expr, t Type) (*Expr, error) {
	if !e.Type.Scalar() {
		return nil, fmt.Errorf("%s is %s, not a number", shortString(e), e.Type)
	}
	return convert(e, t)
}

func (c *checker) unary(e, a *Expr) (*Expr, error) {
	t, err := arithType(&Expr{Op: OpAdd, Type: e.Type}, []*Expr{a, a})
	if err != nil {
		return nil, err
	}
	x, err := convertNumber(a, t)
	if err != nil {
		return nil, err
	}
	// -x is 0-x, and ~x is x^-1: one less thing to get wrong everywhere.
	if e.Op == OpNeg {
		return c.arith(&Expr{Op: OpSub, Type: t, Pos: e.Pos}, []*Expr{keepUntyped(constOf(t, 0), a), keepUntyped(x, a)})
	}
	return c.arith(&Expr{Op: OpXor, Type: t, Pos: e.Pos}, []*Expr{x, constOf(t, ^uint64(0))})
}

// keepUntyped marks a constant as adaptable where the one it came from was.
func keepUntyped(x, from *Expr) *Expr {
	if untyped(from) && isConst(x) {
		x.loose = true
	}
	return x
}

func (c *checker) comparison(e *Expr, args []*Expr) (*Expr, error) {
	a, b := args[0], args[1]
	if !a.Type.Scalar() || !b.Type.Scalar() {
		return c.compareMem(e, a, b)
	}
	t, err := promote(a, b)
	if err != nil {
		return nil, err
	}
	if a.Type.Kind == KindPtr && b.Type.Kind == KindPtr {
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
	if isConst(x) && isConst(y) {
		return constOf(BoolType(), b2u(compare(e.Op, t.Signed, uint64(x.Int), uint64(y.Int)))), nil
	}
	return &Expr{Op: e.Op, Type: BoolType(), Args: []*Expr{x, y}, Pos: e.Pos}, nil
}

// compareMem compares values in memory: text with text, and equal types.
func (c *checker) compareMem(e, a, b *Expr) (*Expr, error) {
	a, b = asText(a), asText(b)
	text := a.Type.Kind == KindString && b.Type.Kind == KindString
	if !text && !a.Type.Equal(b.Type) {
		return nil, fmt.Errorf("comparison of %s with %s", a.Type, b.Type)
	}
	if e.Op != OpEq && e.Op != OpNe {
		return nil, fmt.Errorf("%s: only == and != compare it", a.Type)
	}
	if a.Op == OpString && b.Op == OpString {
		return constOf(BoolType(), b2u((a.Str == b.Str) == (e.Op == OpEq))), nil
	}
	if a.Op == OpString || a.Op == OpBytes {
		a, b = b, a
	}
	return &Expr{Op: e.Op, Type: BoolType(), Args: []*Expr{a, b}, Pos: e.Pos}, nil
}

// asText reads the text behind a pointer to char where text is wanted.
func asText(e *Expr) *Expr {
	if e.Type.Kind == KindPtr && e.Type.Elem != nil && isChar(e.Type.Elem) {
		return &Expr{Op: OpStr, Type: StringType(DefaultString), Args: []*Expr{e}, Pos: e.Pos}
	}
	return e
}

// DefaultString is the size of text whose size nobody gave, in bytes.
const DefaultString = 64

// truth makes e a bool: a number is true if it is not zero.
func truth(e *Expr) (*Expr, error) {
	if e.Type.Kind == KindBool {
		return e, nil
	}
	if !e.Type.Scalar() {
		return nil, fmt.Errorf("%s is %s, not a condition", shortString(e), e.Type)
	}
	return convert(e, BoolType())
}

func (c *checker) logic(e *Expr, args []*Expr) (*Expr, error) {
	out := &Expr{Op: e.Op, Type: BoolType(), Args: make([]*Expr, len(args)), Pos: e.Pos}
	for i, a := range args {
		x, err := truth(a)
		if err != nil {
			return nil, err
		}
		out.Args[i] = x
	}
	x := out.Args[0]
	switch {
	case !isConst(x):
		return out, nil
	case e.Op == OpLNot:
		return constOf(BoolType(), b2u(x.Int == 0)), nil
	case (x.Int != 0) == (e.Op == OpLOr):
		return constOf(BoolType(), b2u(e.Op == OpLOr)), nil
	}
	return out.Args[1], nil
}

func (c *checker) cond(e *Expr, args []*Expr) (*Expr, error) {
	k, err := truth(args[0])
	if err != nil {
		return nil, err
	}
	t := e.Type
	if t.Kind == KindAuto {
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
	if isConst(k) {
		if k.Int != 0 {
			return a, nil
		}
		return b, nil
	}
	return &Expr{Op: OpCond, Type: t, Args: []*Expr{k, a, b}, Pos: e.Pos}, nil
}

// condType is the common type of two alternatives.
func condType(a, b *Expr) (Type, error) {
	switch {
	case a.Type.Equal(b.Type):
		return a.Type, nil
	case a.Type.Scalar() && b.Type.Scalar():
		return promote(a, b)
	case a.Type.Kind == KindString && b.Type.Kind == KindString:
		return StringType(max(a.Type.Size, b.Type.Size)), nil
	}
	return Type{}, fmt.Errorf("alternatives of %s and %s", a.Type, b.Type)
}

func (c *checker) cast(e, a *Expr) (*Expr, error) {
	if e.Type.Kind == KindPtr && e.Str != "" {
		t, err := c.kernelType(e.Str)
		if err != nil {
			return nil, err
		}
		return c.cast(&Expr{Op: OpCast, Type: PtrType(t, e.Type.User), Pos: e.Pos}, a)
	}
	if err := validType(e.Type, 0); err != nil {
		return nil, err
	}
	if e.Type.Equal(a.Type) { // a change of meaning only
		out := *a
		out.loose = false
		if a.Op == OpVar || a.Type.Kind == KindPtr {
			return &Expr{Op: OpCast, Type: e.Type, Args: []*Expr{a}, Pos: e.Pos}, nil
		}
		out.Type = e.Type
		return &out, nil
	}
	if a.Type.Kind == KindString && e.Type.Kind == KindString && a.Op != OpString || sameBits(a.Type, e.Type) {
		return &Expr{Op: OpCast, Type: e.Type, Args: []*Expr{a}, Pos: e.Pos}, nil
	}
	x, err := convert(a, e.Type)
	if err != nil {
		return nil, err
	}
	if x == a {
		out := *x
		out.Type, out.loose = e.Type, false
		return &out, nil
	}
	return x, nil
}

func (c *checker) bswap(e, a *Expr) (*Expr, error) {
	if a.Type.Kind != KindInt || untyped(a) {
		return nil, fmt.Errorf("%s is %s: bswap needs an integer of known width", shortString(a), a.Type)
	}
	if isConst(a) {
		return constOf(a.Type, bswap(a.Type, uint64(a.Int))), nil
	}
	if a.Type.Size == 1 {
		return a, nil
	}
	return &Expr{Op: OpBswap, Type: a.Type, Args: []*Expr{a}, Pos: e.Pos}, nil
}

func (c *checker) tuple(e *Expr, args []*Expr) (*Expr, error) {
	if e.Op == OpElem {
		return c.elem(e, args[0])
	}
	if e.Type.Kind == KindTuple {
		if err := validType(e.Type, 0); err != nil {
			return nil, err
		}
		if len(args) != len(e.Type.Fields) {
			return nil, fmt.Errorf("%d elements for %s", len(args), e.Type)
		}
		return convertTuple(&Expr{Op: OpTuple, Args: args, Pos: e.Pos}, e.Type)
	}
	fields := make([]Field, len(args))
	for i, a := range args {
		if untyped(a) {
			a = constOf(Int64Type(), uint64(a.Int))
		}
		args[i] = asText(a)
		fields[i].Type = args[i].Type
	}
	t := TupleType(fields...)
	if t.Size > maxMemory {
		return nil, fmt.Errorf("tuple of %d bytes: at most %d", t.Size, maxMemory)
	}
	return &Expr{Op: OpTuple, Type: t, Args: args, Pos: e.Pos}, nil
}

func (c *checker) elem(e, a *Expr) (*Expr, error) {
	if a.Type.Kind != KindTuple {
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
	if a.Op == OpTuple {
		return a.Args[i], nil
	}
	return &Expr{Op: OpElem, Type: a.Type.Fields[i].Type, Args: []*Expr{a}, Int: int64(i), Pos: e.Pos}, nil
}

// mapRead types a read of a map.
func (c *checker) mapRead(e *Expr, args []*Expr) (*Expr, error) {
	if err := plainMap(e.Map); err != nil {
		return nil, err
	}
	out := &Expr{Op: e.Op, Type: e.Map.Value, Map: e.Map, Pos: e.Pos}
	if e.Op == OpMapHas {
		out.Type = BoolType()
	}
	var key *Expr
	if len(args) > 0 {
		key = args[0]
	}
	key, err := c.keyOf(e.Map, key)
	if err != nil {
		return nil, err
	}
	if key != nil {
		out.Args = []*Expr{key}
	}
	return out, nil
}

// keyOf converts a typed key to a map's.
func (c *checker) keyOf(m *Map, key *Expr) (*Expr, error) {
	if m.storage() {
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
func plainMap(m *Map) error {
	switch {
	case m == nil:
		return errors.New("missing map")
	case m.Agg != AggNone:
		return fmt.Errorf("map %s aggregates (%s) and cannot be read by the program", m.Name, m.Agg)
	case m.Kind == MapRing || m.Kind == MapPerf:
		return fmt.Errorf("map %s is a buffer", m.Name)
	}
	return nil
}
