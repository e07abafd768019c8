package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
)

// folder is a folder of whole scripts.
type folder struct{ name, dir string }

// typeScripts types the scripts of folders for this machine, with unsafe functions allowed.
// It prints how many have types, and the errors of the others.
func typeScripts(w io.Writer, folders []folder) error {
	sys := system.New(probe.NewEnv(nil), nil)
	for _, d := range folders {
		if d.dir == "" {
			continue
		}
		list, err := scripts(d.dir, ".bt")
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return fmt.Errorf("%s has no scripts", d.dir)
		}
		typed := 0
		var times []time.Duration
		var refused strings.Builder
		for _, sn := range list {
			start := time.Now()
			err := typeScript(sys, sn)
			times = append(times, time.Since(start))
			if err != nil {
				first, _, _ := strings.Cut(syntax.Text(err), "\n")
				_, first, _ = strings.Cut(first, "ERROR: ")
				fmt.Fprintf(&refused, "    %s: %s\n", sn.where, first)
				continue
			}
			typed++
		}
		slices.Sort(times)
		fmt.Fprintf(w, "%-28s %9d %9d typed%31s median %v\n%s", d.name, len(list), typed, "",
			times[len(times)/2], &refused)
	}
	return sys.Err()
}

// typeScript checks a script.
func typeScript(sys *system.System, sn snippet) error {
	_, err := script.Check("stdin", sn.src, &script.Options{System: sys, Unsafe: true})
	return err
}
