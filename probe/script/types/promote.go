package types

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
		fields := make([]Field, len(old.Fields))
		find := t.field
		if old.Kind == Record {
			find = t.fields()
		}
		for i, f := range old.Fields {
			g := &t.Fields[i]
			if old.Kind == Record {
				g = find(f.Name)
			}
			e, ok := promoteAlike(f.Type, g.Type)
			if !ok {
				return Type{}, false
			}
			fields[i] = Field{Name: f.Name, Type: e}
		}
		return group(old.Kind, fields), true
	case old.Kind == String:
		old.Size = max(old.Size, t.Size)
		return old, true
	case old.Kind == Pointer:
		e, ok := promoteAlike(old.pointee(), t.pointee())
		return pointer(e, t.pointee().Space), ok
	}
	return old, true
}
