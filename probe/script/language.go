package script

import (
	"strings"

	"github.com/borescope/borescope/probe/script/internal/funcs"
)

// Name is a builtin or a function of the language.
type Name struct {
	// Name is its name.
	Name string
	// Since is the version of bpftrace that brought it, such as "0.9.4". 0.8 is the first that is
	// known: what has it may be older.
	Since string
	// Builtin is set if it is written without parentheses, Function if it is called. Some are
	// both: pid, and pid() with the name of a namespace.
	Builtin, Function bool
	// Unsafe is set if it changes the system, which Options.Unsafe allows.
	Unsafe bool
	// Probes are the kinds of probes that it may be used in, nil if it may in all.
	Probes []string
}

// Names returns the builtins and functions of the language, sorted by name. The caller owns
// them. What programs do not have yet is among them, too: Compile tells (NotYet).
func Names() []Name {
	var list []Name
	for _, r := range funcs.All() {
		n := Name{
			Name: r.Name, Since: r.Since, Builtin: r.Bare, Function: !r.Bare || r.Most > 0,
			Unsafe: r.Unsafe,
		}
		if r.Probes != "" {
			n.Probes = strings.Split(r.Probes, " ")
		}
		list = append(list, n)
	}
	return list
}
