package probe

import "github.com/borescope/borescope/probe/internal/perfevent"

// Target names an event source, as plain data: what to attach to, not how. The set of
// kinds is closed; each kind is a struct of its own. A Target prints in bpftrace's
// syntax, and ParseTarget parses that text.
//
// Names may contain the wildcards * ? [a-z] where bpftrace allows them. Such a target
// stands for all matches, attached with one program where the kernel can.
type Target interface {
	// String returns the target in bpftrace's syntax: "kprobe:vfs_read+4".
	String() string
	kind
}

// kind is implemented by each kind of target, in a file of its own.
type kind interface {
	// resolve adds the target's programs.
	resolve(r *resolver) error
	// list puts the places that match the target as a pattern.
	list(l *lister) error
	// requires adds what attaching the target needs.
	requires(q *requirer)
	// word returns the word that its programs' names begin with.
	word() string
}

// eventKind is implemented by the kinds that the kernel attaches to perf events.
type eventKind interface {
	// event returns what is opened for a site of program g.
	event(a *attacher, g *ProgramPlan, s *Site) (*perfevent.Event, error)
}
