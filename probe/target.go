package probe

// Target names an event source, as plain data: what to attach to, not how.
// The set of kinds is closed; each is a struct of its own below. A Target
// prints in bpftrace's syntax, and ParseTarget reads that back.
//
// Names may hold the wildcards * ? [a-z] where bpftrace allows them; such a
// target stands for all that match, attached with one program where the kernel
// can.
type Target interface {
	// String is the target in bpftrace's syntax: "kprobe:vfs_read+4".
	String() string
	kind
}

// kind is what this package does with targets of a kind, each in a file of its own.
type kind interface {
	// resolve adds the target's programs.
	resolve(r *resolver) error
	// list puts what matches the target as a pattern.
	list(l *lister) error
	// requires adds what attaching it needs.
	requires(q *requirer)
	// word is what its programs are named by.
	word() string
}
