package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/library"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
	"github.com/borescope/borescope/probe/script/system"
	"github.com/borescope/borescope/probe/script/types"
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

// typeScript runs all passes.
func typeScript(sys *system.System, sn snippet) error {
	f, err := syntax.Parse("stdin", []byte(sn.src), &syntax.Options{
		Defined: func(name string) bool { return name == "BPFTRACE_HAVE_BTF" },
	})
	var c *config.Config
	if err == nil {
		c, _, err = config.Read(f, nil)
	}
	if err == nil {
		err = syntax.Expand(f, &syntax.ExpandOptions{Library: library.Macros(), Builtin: types.Library})
	}
	if err == nil {
		err = attach.Parse(f, &attach.Options{Unsafe: true, MayMiss: c.MissingProbes != "error"})
	}
	if err == nil {
		err = attach.Check(f, nil)
	}
	if err != nil {
		return err
	}
	if err := sys.Expand(f, c); err != nil {
		return err
	}
	_, err = types.Check(f, &types.Options{System: sys, Config: c, Unsafe: true})
	return err
}
