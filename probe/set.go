package probe

import (
	"strings"
)

// Set is several targets that share one action: "kprobe:a,kprobe:b".
type Set []Target

func (Set) target() {}

// String is the targets, separated by commas.
func (t Set) String() string {
	names := make([]string, len(t))
	for i, m := range t {
		names[i] = m.String()
	}
	return strings.Join(names, ",")
}
