package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
)

// list is a list of whole scripts.
type list struct {
	name    string
	scripts []snippet
}

// typeLists types scripts for a machine, with unsafe functions allowed. It prints how many have
// types, and the errors of the others.
func typeLists(w io.Writer, sys *system.System, lists []list) error {
	for _, l := range lists {
		typed, lacking := 0, 0
		var times []time.Duration
		var refused strings.Builder
		for _, sn := range l.scripts {
			start := time.Now()
			lacks, err := typeScript(sys, sn)
			times = append(times, time.Since(start))
			if err != nil {
				first, _, _ := strings.Cut(syntax.ErrorText(err), "\n")
				_, first, _ = strings.Cut(first, "ERROR: ")
				fmt.Fprintf(&refused, "    %s: %s\n", sn.where, first)
				continue
			}
			if typed++; lacks {
				lacking++
			}
		}
		slices.Sort(times)
		said := ""
		if lacking > 0 {
			said = fmt.Sprintf("%d of them without probes that are missing", lacking)
		}
		fmt.Fprintf(w, "%-20s %9d %9d typed  median %-12v %s\n%s", l.name, len(l.scripts), typed,
			times[len(times)/2], said, &refused)
	}
	return sys.Err()
}

// typeScript checks a script, and reports whether it has probes that the machine does not have.
// These are left out, as with missing_probes = "warn": here it matters whether a script can be
// typed.
func typeScript(sys *system.System, sn snippet) (lacks bool, err error) {
	c, err := script.Check("stdin", sn.src, &script.Options{
		System: sys, Unsafe: true, Params: sn.params, PID: sn.pid(),
		Environ: func(name string) (string, bool) {
			if name == "BPFTRACE_MISSING_PROBES" {
				return "warn", true
			}
			value, set := sn.environ[name]
			return value, set
		},
	})
	for _, e := range c.Warnings {
		lacks = lacks || strings.Contains(e.Msg, "Skipping.") || strings.Contains(e.Msg, "no valid attach points")
	}
	return lacks, err
}

// pid is a process for scripts that are run with one: which it is does not matter for types.
func (sn snippet) pid() int {
	if sn.process {
		return os.Getpid()
	}
	return 0
}
