package symbol

// Chain calls resolvers in order: each one is given the addresses that none before it could
// name. An address that none can name keeps the first one's reason. It is safe for concurrent
// use if its members are.
type Chain []Resolver

// Resolve implements Resolver.
func (c Chain) Resolve(dst []Frame, pcs []uint64) []Frame {
	if len(c) == 0 {
		return unnamed(ReasonNoMapping).Resolve(dst, pcs)
	}
	for i := range pcs {
		n := len(dst)
		dst = c[0].Resolve(dst, pcs[i:i+1])
		first := dst[n:]
		for _, r := range c[1:] {
			if len(first) > 0 && first[0].Name != "" {
				break
			}
			m := len(dst)
			dst = r.Resolve(dst, pcs[i:i+1])
			if len(dst) > m && dst[m].Name != "" {
				dst = append(dst[:n], dst[m:]...)
				break
			}
			dst = dst[:m]
		}
		for k := n; k < len(dst); k++ {
			dst[k].Index = i
		}
	}
	return dst
}

// unnamed is a resolver that names nothing and gives itself as the reason: for
// addresses of a process that was never seen, for example.
type unnamed Reason

// Resolve implements Resolver.
func (u unnamed) Resolve(dst []Frame, pcs []uint64) []Frame {
	for i, pc := range pcs {
		dst = append(dst, Frame{Index: i, ModuleOffset: pc, Reason: Reason(u)})
	}
	return dst
}

// String returns the reason in words, for people.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "unknown reason"
}

var reasons = [...]string{
	ReasonNone:       "",
	ReasonNoMapping:  "no mapping",
	ReasonNoSymbols:  "no symbols in the file",
	ReasonNoSymbol:   "no symbol covers the address",
	ReasonNoFile:     "the file is gone or cannot be read",
	ReasonBadFile:    "the file is malformed",
	ReasonAnonymous:  "anonymous memory",
	ReasonExited:     "the process ended before it was seen",
	ReasonHidden:     "kernel addresses are hidden",
	ReasonNoKallsyms: "kallsyms cannot be read",
	ReasonBudget:     "beyond the budget for the process",
	ReasonTruncated:  "the stack was cut off",
	ReasonServed:     "a process may serve the file (FUSE), or its server does not answer",

	ReasonNoDebug:     "no debug information",
	ReasonNoDebugFile: "its debug file was not found",
	ReasonNoLine:      "the debug information has no line for the address",
	ReasonTooLarge:    "the debug information is too large for the file's size, or its budget",
	ReasonBadDebug:    "the debug information is malformed",
	ReasonChanged:     "the process mapped something else there meanwhile",
}

// String returns the kind's name.
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return "unknown kind"
}

var kinds = [...]string{
	"unknown", "user", "kernel", "bpf", "jit", "go", "plt", "data", "vdso", "script",
}

var (
	_ Resolver = Chain(nil)
	_ Resolver = unnamed(0)
)
