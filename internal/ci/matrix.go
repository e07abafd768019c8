package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/vmtest/kernel"
)

// matrix defines what runs where. It maps "PACKAGE", or "PACKAGE:TEST" for a test that must
// pass, to columns: places, or kernels (kernel.Of).
type matrix map[string][]string

// later is the prefix of a column that only a whole check (-all) runs.
const later = "~"

// readMatrix reads lines of "PACKAGE[:TEST] COLUMN…". "#" begins a comment, and a word "$NAME"
// stands for the columns of an earlier line "$NAME = COLUMN…". Unless all is set, it omits
// columns that begin with later.
func readMatrix(path string, all bool) (matrix, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := parseMatrix(f, all)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return m, nil
}

func parseMatrix(r io.Reader, all bool) (matrix, error) {
	m, sets := matrix{}, map[string][]string{}
	sc := bufio.NewScanner(r)
	for n := 1; sc.Scan(); n++ {
		text, _, _ := strings.Cut(sc.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		isSet := len(words) > 2 && words[0][0] == '$' && words[1] == "="
		columns, err := expand(words[1:], sets, isSet, all)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		if isSet {
			sets[words[0]] = columns
			continue
		}
		if _, twice := m[words[0]]; twice || len(words) == 1 {
			return nil, fmt.Errorf("%d: %s twice or without columns", n, words[0])
		}
		m[words[0]] = columns
	}
	return m, sc.Err()
}

func expand(words []string, sets map[string][]string, isSet, all bool) ([]string, error) {
	if isSet {
		words = words[1:]
	}
	var columns []string
	for _, w := range words {
		if set, ok := sets[w]; ok {
			columns = append(columns, set...)
			continue
		}
		col, isLater := strings.CutPrefix(w, later)
		if _, _, ok := kernel.Of(col); !ok && !slices.Contains(places, col) {
			return nil, fmt.Errorf("no column %q", w)
		}
		if all || !isLater {
			columns = append(columns, col)
		}
	}
	return columns, nil
}

// entriesFor returns what is declared for a column: "PACKAGE" and "PACKAGE:TEST".
func (m matrix) entriesFor(column string) []string {
	var found []string
	for entry, columns := range m {
		if slices.Contains(columns, column) {
			found = append(found, entry)
		}
	}
	slices.Sort(found)
	return found
}

// packagesFor returns the packages that must run in a column.
func (m matrix) packagesFor(column string) []string {
	var ps []string
	for _, entry := range m.entriesFor(column) {
		pkg, _, _ := strings.Cut(entry, ":")
		ps = append(ps, pkg)
	}
	slices.Sort(ps) // "a:X" sorts after "a/b"
	return slices.Compact(ps)
}

// onlyFor returns the test pattern for each package of which a column declares only tests by
// name.
func (m matrix) onlyFor(column string) map[string]string {
	names := map[string][]string{}
	whole := map[string]bool{}
	for _, entry := range m.entriesFor(column) {
		pkg, test, byName := strings.Cut(entry, ":")
		if byName {
			names[pkg] = append(names[pkg], test)
		} else {
			whole[pkg] = true
		}
	}
	only := map[string]string{}
	for pkg, tests := range names {
		if !whole[pkg] {
			only[pkg] = "^(" + strings.Join(tests, "|") + ")$"
		}
	}
	return only
}

// guestColumns returns the kernels on which anything is declared to run, in the order of
// compareColumns.
func (m matrix) guestColumns() []string {
	var found []string
	for _, columns := range m {
		for _, col := range columns {
			if _, _, ok := kernel.Of(col); ok && !slices.Contains(found, col) {
				found = append(found, col)
			}
		}
	}
	slices.SortFunc(found, compareColumns)
	return found
}

// places are the columns that are not guests, in the order of the table.
var places = []string{"native", "user", "bare", "bare-user", "container", "container-user", "race"}

// compareColumns orders this machine's columns first, then amd64 and arm64 kernels by age.
func compareColumns(a, b string) int { return rank(a) - rank(b) }

func rank(column string) int {
	if i := slices.Index(places, column); i >= 0 {
		return i
	}
	version, arch, _ := kernel.Of(column)
	r := 10 + slices.Index(kernel.Versions(), version)
	if arch == "arm64" {
		r += 100
	}
	return r
}
