package ir

// TypeOf is the type that programs give the Go type T, as of memory to read:
// p.Load(0, TypeOf[T]()) is a struct whose fields Int.Elem picks. It panics
// never: a type that has no fixed form is one that Compile refuses.
func TypeOf[T any]() Type {
	t, err := typeFor[T]()
	if err != nil {
		return Type{Kind: KindTuple}
	}
	return t
}
