package main

import (
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/borescope/borescope/probe/env"
)

// language is the version of bpftrace whose language this is.
const language = "0.26.1"

// build says which program this is.
func build() string {
	version := "unknown version"
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		version = b.Main.Version
	}
	return version + ", " + runtime.Version()
}

// printInfo prints what this kernel has, and the causes of what it lacks.
func (o *options) printInfo() error {
	var b strings.Builder
	fmt.Fprintf(&b, "System\n  Arch: %s\n  Language: bpftrace %s\n  Build: %s\n\nKernel\n", runtime.GOARCH, language, build())
	set := env.RecordFeatures()
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		fmt.Fprintf(w, "  %s:\t%s\t%s\n", strings.ReplaceAll(name, "-", "_"), set[name].State, set[name].Reason)
	}
	w.Flush()
	return o.stdout.Text(b.String())
}
