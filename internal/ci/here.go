package main

import (
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testlog"
)

// here are the tests of a package that passed on this machine and are not run again in the
// guest whose kernel this machine's own stands for.
type here struct {
	tests []string // without those that the matrix declares for the guest by name
	all   bool     // the guest has no other to run
}

// standsFor returns the guest whose results this machine's kernel predicts, "" if there is
// none. In a whole check, nothing is predicted.
func (c *check) standsFor() string {
	switch {
	case c.all || os.Geteuid() != 0 || runtime.GOOS != "linux" || runtime.GOARCH != "amd64":
		return ""
	case feature.KernelAtLeast("6.12"):
		return soaked
	case feature.KernelAtLeast("5.10") && !feature.KernelAtLeast("6.1"):
		return "5.10"
	}
	return ""
}

// passedHere returns the tests by package that passed on this machine with all of their
// subtests. If this machine skipped any part of a test, the guest runs all of it.
func (t *table) passedHere(column string) map[string]here {
	found := map[string]here{}
	for pkg, row := range t.cells {
		native, ok := row["native"]
		if !ok || native.problem != "" {
			continue
		}
		again := map[string]bool{}
		for _, r := range native.results {
			top, _, _ := strings.Cut(r.Name, "/")
			again[top] = again[top] || r.Status != testlog.Pass || slices.Contains(t.matrix[pkg+":"+top], column)
		}
		h := here{all: true}
		for _, r := range native.results {
			switch {
			case again[r.Name]:
				h.all = false
			case !strings.Contains(r.Name, "/"):
				h.tests = append(h.tests, r.Name)
			}
		}
		found[pkg] = h
	}
	return found
}
