package ir

// CtxKind says how a value is found in the context.
type CtxKind uint8

// CtxLoc is where OpCtx finds its value.
type CtxLoc struct {
	Kind CtxKind
	Off  int
	Size int
}
