package syntax

// AttachPoint is an attach point of a probe. Parse sets its text only; package attach sets the
// other fields, those that its provider has.
type AttachPoint struct {
	Loc
	Text string // as written

	Provider  string // the full name: kprobe, also if the script has k
	Label     string // of label=provider:…
	Target    string // the module, file, category, event, unit of time, or name of a test
	Namespace string // of usdt
	Lang      string // of uprobe: cpp
	Func      string // the function, event or probe name
	Offset    uint64 // in Func
	Address   uint64 // instead of Func, or that of a watchpoint
	Freq      uint64 // of profile, interval, software and hardware
	Len       uint64 // of a watchpoint
	Mode      string // of a watchpoint
	Pin       string // of iter
	File      string // of uprobe:…@file:line:column
	Line      uint64
	Column    uint64
	ProgID    uint64 // of fentry:bpf:id:name

	// Wild reports that the attach point comes from a provider with wildcards. It is dropped
	// if it cannot be an attach point of this provider.
	Wild bool
}
