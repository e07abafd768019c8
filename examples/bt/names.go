package main

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/borescope/borescope/probe/script"
)

// listNames prints the builtins and functions of the language.
func (o *options) listNames() error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSINCE\tPROBES")
	for _, n := range script.Names() {
		name := n.Name
		if n.Function && n.Builtin {
			name += ", " + name
		}
		if n.Function {
			name += "()"
		}
		probes := cmp.Or(strings.Join(n.Probes, " "), "all")
		if n.Unsafe {
			probes += ", with -unsafe"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", name, n.Since, probes)
	}
	w.Flush()
	return o.stdout.Text(b.String())
}
