package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// A run prints a line with the place, and one for each case.
const (
	placeLine = "bttest-place\t"
	caseLine  = "bttest\t"
)

// row is what came of a case in a place.
type row struct {
	verdict
	place string
}

// rows are those of several runs, by file and name.
type rows struct {
	places []string
	order  [][2]string
	of     map[[2]string]row
}

// readRows reads what runs printed. Of a case that was tried in several places that one counts which has
// what it needs, the first of them.
func readRows(names []string) (*rows, error) {
	all := &rows{of: map[[2]string]row{}}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		err = all.read(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return all, nil
}

func (all *rows) read(r io.Reader) error {
	place := ""
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if p, ok := strings.CutPrefix(lines.Text(), placeLine); ok {
			place = strings.TrimSpace(p)
			if !slices.Contains(all.places, place) {
				all.places = append(all.places, place)
			}
		}
		rest, ok := strings.CutPrefix(lines.Text(), caseLine)
		if !ok {
			continue
		}
		f := strings.SplitN(rest, "\t", 4)
		if len(f) != 4 {
			continue // cut off
		}
		key := [2]string{f[0], f[1]}
		old, seen := all.of[key]
		if !seen {
			all.order = append(all.order, key)
		}
		if !seen || old.outcome == notHere {
			all.of[key] = row{verdict{f[2], strings.TrimSpace(f[3])}, place}
		}
	}
	return lines.Err()
}

// print prints the table.
func (all *rows) print(w io.Writer) {
	outcomes := []string{passes, fails, notYet, notHere}
	count := map[[2]string]int{}
	total := map[string]int{}
	for _, r := range all.of {
		count[[2]string{r.place, r.outcome}]++
		total[r.outcome]++
	}
	fmt.Fprintf(w, "# bpftrace's own runtime suite\n\n"+
		"%d cases of bpftrace 0.26.1, each in one place: the first that has what it needs. Made by "+
		"`bttest -table`; see [the README](../README.md#bttest).\n\n", len(all.order))
	fmt.Fprintf(w, "| place | %s |\n|---|%s\n", strings.Join(outcomes, " | "), strings.Repeat("---|", len(outcomes)))
	for i, p := range append(slices.Clone(all.places), "all") {
		fmt.Fprintf(w, "| %s |", p)
		for _, o := range outcomes {
			n := count[[2]string{p, o}]
			if i == len(all.places) {
				n = total[o]
			}
			fmt.Fprintf(w, " %d |", n)
		}
		fmt.Fprintln(w)
	}
	if can := total[passes] + total[fails]; can > 0 {
		fmt.Fprintf(w, "\nOf the %d that need no form that programs do not have, and can be somewhere here, %.1f %% pass.\n",
			can, 100*float64(total[passes])/float64(can))
	}
	for _, o := range outcomes[1:] {
		fmt.Fprintf(w, "\n## %s: %d\n\n", strings.ToUpper(o[:1])+o[1:], total[o])
		all.byCause(w, o)
	}
	fmt.Fprintf(w, "\n## Passes: %d\n\n", total[passes])
	all.names(w)
}

// known has a line for each case that fails for a known reason: FILE.NAME, a tab, the reason.
//
//go:embed causes.txt
var known string

// reasons returns what known has, by case.
func reasons() map[string]string {
	of := map[string]string{}
	for line := range strings.Lines(known) {
		name, why, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if ok && !strings.HasPrefix(name, "#") {
			of[name] = why
		}
	}
	return of
}

// byCause prints the cases of an outcome, those with the same cause together.
func (all *rows) byCause(w io.Writer, outcome string) {
	var causes []string
	cases := map[string][]string{}
	for _, key := range all.order {
		r := all.of[key]
		if r.outcome != outcome {
			continue
		}
		if cases[r.cause] == nil {
			causes = append(causes, r.cause)
		}
		cases[r.cause] = append(cases[r.cause], key[0]+"."+key[1])
	}
	why := reasons()
	slices.SortStableFunc(causes, func(a, b string) int { return len(cases[b]) - len(cases[a]) })
	for _, c := range causes {
		fmt.Fprintf(w, "* %s (%d): %s\n", literal(c), len(cases[c]), strings.Join(cases[c], "; "))
		for _, name := range cases[c] {
			if outcome == fails && why[name] != "" {
				fmt.Fprintf(w, "  * %s\n", literal(name+": "+why[name]))
			}
		}
	}
}

// names prints the names of the cases that pass, by file.
func (all *rows) names(w io.Writer) {
	var files []string
	names := map[string][]string{}
	for _, key := range all.order {
		if all.of[key].outcome != passes {
			continue
		}
		if names[key[0]] == nil {
			files = append(files, key[0])
		}
		names[key[0]] = append(names[key[0]], key[1])
	}
	for _, f := range files {
		fmt.Fprintf(w, "* %s (%d): %s\n", f, len(names[f]), strings.Join(names[f], "; "))
	}
}

// literal is a cause as Markdown prints it as it is.
func literal(s string) string {
	if strings.ContainsAny(s, "*_<`$|\\") {
		return "`` " + s + " ``"
	}
	return s
}
