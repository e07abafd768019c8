package probe

import (
	"strings"
)

// Set is several targets that share one action: "kprobe:a,kprobe:b".
type Set []Target

func (t Set) resolve(r *resolver) error { return r.resolveMember(t) }

func (t Set) requires(q *requirer) {
	for _, m := range t {
		if m != nil {
			m.requires(q)
		}
	}
}

func (t Set) list(l *lister) error {
	for _, m := range t {
		if err := m.list(l); err != nil {
			return err
		}
	}
	return nil
}

func (t Set) word() string { return "set" }

// String returns the targets, separated by commas.
func (t Set) String() string {
	names := make([]string, len(t))
	for i, m := range t {
		names[i] = m.String()
	}
	return strings.Join(names, ",")
}
