package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/testlog"
)

// table contains the results by package and column.
type table struct {
	matrix      matrix
	cells       map[string]map[string]cell
	unavailable map[string]string // the cause by column
	ran         map[string]bool   // columns that were run
}

// cell is the result of one package in one column.
type cell struct {
	counts  testlog.Counts
	here    int // tests that passed on this machine and were not run again
	results []testlog.Result
	took    time.Duration
	problem string // another problem: a timeout, something left behind
}

func newTable(m matrix) *table {
	return &table{m, map[string]map[string]cell{}, map[string]string{}, map[string]bool{}}
}

func (t *table) set(pkg, column string, c cell) {
	if t.cells[pkg] == nil {
		t.cells[pkg] = map[string]cell{}
	}
	t.cells[pkg][column] = c
	t.ran[column] = true
}

// text returns a cell as it is printed: "12", "12+7 (3s)", "FAIL", "skipped", "none".
func (c cell) text() string {
	n := c.counts
	switch {
	case n.Failed > 0 || c.problem != "":
		return "FAIL"
	case n.Passed+c.here == 0 && n.Skipped > 0:
		return "skipped"
	case n.Passed+c.here == 0:
		return "none"
	}
	s := fmt.Sprint(n.Passed)
	if c.here > 0 {
		s += fmt.Sprintf("+%d", c.here)
	}
	if n.Skipped > 0 {
		s += fmt.Sprintf(" (%ds)", n.Skipped)
	}
	return s
}

// broken returns the entries that are declared for a column and did not run (no test of the
// package passed, or a test declared by name did not), and skips without a proven cause.
func (t *table) broken(column string) []string {
	var problems []string
	for _, declared := range t.matrix.entriesFor(column) {
		pkg, test, byName := strings.Cut(declared, ":")
		c, ok := t.cells[pkg][column]
		switch {
		case !ok:
			problems = append(problems, declared+" on "+column+": declared to run, but it did not")
		case byName && !slices.ContainsFunc(c.results, passed(test)):
			problems = append(problems, declared+" on "+column+": declared to pass, but it did not")
		case c.counts.Passed+c.here == 0:
			problems = append(problems, declared+" on "+column+": declared to run, but no test passed")
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(t.cells)) {
		for _, r := range t.cells[pkg][column].results {
			if r.Status == testlog.Skip && !strings.HasPrefix(r.Reason, testenv.SkipPrefix) {
				problems = append(problems, fmt.Sprintf(
					"%s:%s on %s: skipped without a proven cause, use testenv.Need: %s", pkg, r.Name, column,
					r.Reason))
			}
		}
	}
	return problems
}

func passed(test string) func(testlog.Result) bool {
	return func(r testlog.Result) bool { return r.Name == test && r.Status == testlog.Pass }
}

// print prints the table and the reasons of the skips, each once.
func (t *table) print(w io.Writer) {
	columns := slices.SortedFunc(maps.Keys(t.ran), compareColumns)
	for col := range t.unavailable {
		columns = append(columns, col)
	}
	slices.SortFunc(columns, compareColumns)
	columns = slices.Compact(columns)
	if len(columns) == 0 {
		return
	}
	fmt.Fprintf(w, "\npassed tests by package and place; (Ns): N skipped; +N: N passed natively\nand were not run again; -: not declared to run there\n\n%-26s", "")
	for _, col := range columns {
		fmt.Fprintf(w, "%11s", col)
	}
	fmt.Fprintln(w)
	for _, pkg := range slices.Sorted(maps.Keys(t.cells)) {
		fmt.Fprintf(w, "%-26s", pkg)
		for _, col := range columns {
			fmt.Fprintf(w, "%11s", t.cellText(pkg, col))
		}
		fmt.Fprintln(w)
	}
	for _, col := range slices.SortedFunc(maps.Keys(t.unavailable), compareColumns) {
		fmt.Fprintf(w, "\n%s unavailable: %s\n", col, t.unavailable[col])
	}
	t.printReasons(w)
}

func (t *table) cellText(pkg, col string) string {
	if c, ok := t.cells[pkg][col]; ok {
		return c.text()
	}
	if t.unavailable[col] != "" && slices.Contains(t.matrix.packagesFor(col), pkg) {
		return "unavail."
	}
	return "-"
}

func (t *table) printReasons(w io.Writer) {
	places := map[string][]string{} // package and reason to columns
	counts := map[string]int{}
	for pkg, row := range t.cells {
		for col, c := range row {
			for _, r := range c.results {
				if r.Status != testlog.Skip {
					continue
				}
				key := pkg + ": " + strings.TrimPrefix(r.Reason, testenv.SkipPrefix)
				counts[key]++
				if !slices.Contains(places[key], col) {
					places[key] = append(places[key], col)
				}
			}
		}
	}
	if len(places) == 0 {
		return
	}
	fmt.Fprintf(w, "\nskipped, by cause:\n")
	for _, key := range slices.Sorted(maps.Keys(places)) {
		slices.SortFunc(places[key], compareColumns)
		fmt.Fprintf(w, "  %s (%d× on %s)\n", key, counts[key], strings.Join(places[key], ", "))
	}
}

// These are the number of the slowest packages and tests that printSlowest prints, and the
// least times.
const (
	slowest     = 15
	slowPackage = 10 * time.Second
	slowTest    = 5 * time.Second
)

// printSlowest prints the slowest packages, and the slowest tests including their subtests.
func (t *table) printSlowest(w io.Writer) {
	type entry struct {
		name string
		took time.Duration
	}
	var packages, tests []entry
	for pkg, row := range t.cells {
		for col, c := range row {
			if c.took >= slowPackage {
				packages = append(packages, entry{col + " " + pkg, c.took})
			}
			for _, r := range c.results {
				if r.Took >= slowTest && !strings.Contains(r.Name, "/") {
					tests = append(tests, entry{col + " " + pkg + ":" + r.Name, r.Took})
				}
			}
		}
	}
	for _, list := range []struct {
		what    string
		entries []entry
	}{{"packages", packages}, {"tests", tests}} {
		slices.SortFunc(list.entries, func(a, b entry) int {
			return cmp.Or(cmp.Compare(b.took, a.took), cmp.Compare(a.name, b.name))
		})
		list.entries = list.entries[:min(len(list.entries), slowest)]
		if len(list.entries) > 0 {
			fmt.Fprintf(w, "\nslowest %s\n", list.what)
		}
		for _, e := range list.entries {
			fmt.Fprintf(w, "%7.0f s  %s\n", e.took.Seconds(), e.name)
		}
	}
	fmt.Fprintln(w)
}
