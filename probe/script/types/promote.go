package types

import "slices"

// ofLiteral returns the smallest type of a number that is not negative.
func ofLiteral(n uint64) Type {
	t := integer(8, true)
	switch {
	case n < 1<<7:
		t.Size = 1
	case n < 1<<15:
		t.Size = 2
	case n < 1<<31:
		t.Size = 4
	case n >= 1<<63:
		return integer(8, false)
	}
	t.Flexible = true
	return t
}

// ofNegative returns the smallest type of a negative number of a magnitude.
func ofNegative(magnitude uint64) Type {
	switch {
	case magnitude <= 1<<7:
		return integer(1, true)
	case magnitude <= 1<<15:
		return integer(2, true)
	case magnitude <= 1<<31:
		return integer(4, true)
	}
	return integer(8, true)
}

// promote returns the type for both the old values and the new one. If there is none, ok is
// false.
func promote(old, t Type) (res Type, ok bool) {
	switch {
	case old.Kind == None && t.castable():
		return integer(8, t.Signed), true
	case old.Kind == None || old.Equal(t):
		return t, true
	case old.compatible(t):
		return promoteAlike(old, t)
	case old.Kind == Integer && t.castable() || t.Kind == Integer && old.castable():
		return promoteInteger(old, t), true
	}
	return Type{}, false
}

// promoteInteger returns the integer type for the values of both. A flexible type takes the
// sign of the other. Of two types with different signs, the result is the signed one if it is
// longer, else a signed one of twice the size, but at most 64 bits.
func promoteInteger(old, t Type) Type {
	size := max(old.Size, t.Size)
	res := integer(size, old.Signed)
	res.Flexible = old.Flexible && t.Flexible
	if old.Signed == t.Signed {
		return res
	}
	if old.Flexible || t.Flexible {
		res.Signed = !old.Flexible && old.Signed || !t.Flexible && t.Signed
		return res
	}
	switch {
	case old.Signed && old.Size > t.Size, t.Signed && t.Size > old.Size:
		return integer(size, true)
	}
	return integer(2*size, true)
}

// promoteAlike promotes compatible types.
func promoteAlike(old, t Type) (Type, bool) {
	switch {
	case old.Kind == Integer:
		return promoteInteger(old, t), true
	case old.castable():
		if !old.Signed && t.Signed {
			return t, true
		}
		return old, true
	case old.Kind == Tuple || old.Kind == Record:
		return promoteGroup(old, t)
	case old.Kind == String || old.Kind == Buffer:
		old.Size = max(old.Size, t.Size)
		return old, true
	case old.Kind == Pointer:
		e, ok := promoteAlike(old.pointee(), t.pointee())
		return pointer(e, t.pointee().Space), ok
	}
	return old, true
}

// promoteGroup promotes tuples or records. If all fields of the old one can stay as they are,
// it keeps them, without a copy.
func promoteGroup(old, t Type) (Type, bool) {
	find := t.field
	if old.Kind == Record {
		find = t.fields()
	}
	var fields []Field // nil as long as nothing differs
	for i := range old.Fields {
		f, g := &old.Fields[i], &t.Fields[i]
		if old.Kind == Record {
			g = find(f.Name)
		}
		e, ok := promoteAlike(f.Type, g.Type)
		if !ok {
			return Type{}, false
		}
		if fields == nil && e.same(&f.Type) {
			continue
		}
		if fields == nil {
			fields = slices.Clone(old.Fields)
		}
		fields[i] = Field{Name: f.Name, Type: e}
	}
	if fields == nil {
		return Type{
			Kind: old.Kind, Size: old.Size, Fields: old.Fields, weight: old.weight,
			aligned: old.aligned,
		}, true
	}
	return group(old.Kind, fields), true
}

// same reports whether two types are the same value. Enums of one name are, since the kernel's
// may be decoded more than once.
func (t *Type) same(u *Type) bool {
	if len(t.Fields) != len(u.Fields) || len(t.Fields) > 0 && &t.Fields[0] != &u.Fields[0] {
		return false
	}
	return t.Kind == u.Kind && t.Signed == u.Signed && t.Flexible == u.Flexible &&
		t.Context == u.Context && t.Args == u.Args && t.Internal == u.Internal &&
		t.Space == u.Space && t.Size == u.Size && t.Name == u.Name && t.Elem == u.Elem &&
		t.Len == u.Len && t.Mode == u.Mode && t.Limit == u.Limit &&
		(t.BTF == u.BTF || t.Kind == Integer)
}
