package ir

import (
	"fmt"
	"reflect"
)

// TypeFor returns the type that programs give a Go type: integers, bool, [N]byte for text or
// bytes, [N]uint64 for stacks, other arrays of up to 256 elements, and structs of these. The
// layout is Go's own, so that Go reads memory that a program wrote without conversion. Types
// with pointers, int, uint and floats are errors.
func TypeFor(t reflect.Type) (Type, error) {
	switch t.Kind() {
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return IntType(int(t.Size()), false), nil
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return IntType(int(t.Size()), true), nil
	case reflect.Bool:
		return BoolType(), nil
	case reflect.Array:
		return arrayFor(t)
	case reflect.Struct:
		return structFor(t)
	}
	return Type{}, fmt.Errorf("%s has no fixed form that programs share: use integers of a stated width, bool, [N]byte, [N]uint64 and structs", t)
}

func arrayFor(t reflect.Type) (Type, error) {
	switch t.Elem().Kind() {
	case reflect.Uint8:
		return BytesType(t.Len()), BytesType(t.Len()).Valid()
	case reflect.Uint64:
		b := BytesType(8 * t.Len()).WithFormat(FormatKstack)
		return b, b.Valid()
	}
	if t.Len() < 1 || t.Len() > 256 {
		return Type{}, fmt.Errorf("%s: want 1 to 256 elements", t)
	}
	elem, err := TypeFor(t.Elem())
	if err != nil {
		return Type{}, err
	}
	out := Type{Kind: KindTuple, Size: int(t.Size())}
	for i := range t.Len() {
		out.Fields = append(out.Fields, Field{Offset: i * int(t.Elem().Size()), Type: elem})
	}
	return out, out.Valid()
}

func structFor(t reflect.Type) (Type, error) {
	out := Type{Kind: KindTuple, Size: int(t.Size())}
	for i := range t.NumField() {
		f := t.Field(i)
		ft, err := TypeFor(f.Type)
		if err != nil {
			return Type{}, fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		out.Fields = append(out.Fields, Field{Name: f.Name, Offset: int(f.Offset), Type: ft})
	}
	return out, out.Valid()
}

func typeFor[T any]() (Type, error) { return TypeFor(reflect.TypeFor[T]()) }

// TypeOf returns the type that programs give the Go type T, for memory to be read: OpDeref
// with TypeOf[T]() is a struct whose fields OpElem selects. It never panics: if T has no
// fixed layout, it returns a type that bpf.Compile refuses.
func TypeOf[T any]() Type {
	t, err := typeFor[T]()
	if err != nil {
		return Type{Kind: KindTuple}
	}
	return t
}
