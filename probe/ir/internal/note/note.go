// Package note has what the checker notes in expressions, until it has a tree of its own.
package note

// CtxKind says how a value is found in the context.
type CtxKind uint8

// CtxLoc is where ir.OpCtx finds its value.
type CtxLoc struct {
	Kind CtxKind
	Off  int
	Size int
}

// BitField is a bit field in a loaded word: shift the word left, then right.
type BitField struct {
	Shl, Shr uint8
}
