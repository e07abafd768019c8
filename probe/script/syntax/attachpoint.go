package syntax

// AttachPoint is where a probe is attached. Parse gives it its text only, package attach the
// other fields, as far as its provider has them.
type AttachPoint struct {
	Loc
	Text string // as written

	Provider  string // kprobe, say, for k too
	Label     string // of label=provider:…
	Target    string // the module, file, category, event, unit of time, or name of a test
	Namespace string // of usdt
	Lang      string // of uprobe: cpp
	Func      string // the function, event or probe
	Offset    uint64 // in Func
	Address   uint64 // instead of Func, or of a watchpoint
	Freq      uint64 // of profile, interval, software and hardware
	Len       uint64 // of a watchpoint
	Mode      string // of a watchpoint
	Pin       string // of iter
	File      string // of uprobe:…@file:line:column
	Line      uint64
	Column    uint64
	ProgID    uint64 // of fentry:bpf:id:name

	// Wild says that it comes from a provider with wildcards: it is dropped where it cannot
	// be one of this provider.
	Wild bool
}
