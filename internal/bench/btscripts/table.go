package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// heading precedes the tables.
const heading = `# Scripts in the kernel

Which scripts become programs that the kernel's verifier takes: each is compiled for the kernel that it is loaded into, and not
attached. Those for functions, user files or symbols that a machine lacks have others in their place, and nothing else changed
("with stand-ins"); the arguments of tracepoints, of fentry and of usdt are their own, so that scripts for those that a machine lacks
are "not here". "other types": structs that are not, or no more, what the script was written for. "wrong": errors in the script
itself. The tools are bpftrace 0.26.1's, the book's scripts those of its repository, the others' those of twelve repositories:
bpftrace's user-tools, courses, PostgreSQL, nginx, games and collections. The first kernel is a machine without kprobes, which takes
programs for them all the same; the others are guests with Debian's programs. Written by [btscripts](main.go).
`

// row is what became of a script on a kernel.
type row struct {
	kernel, dir, name string
	result
}

// table prints what runs printed: for each directory how many scripts became what on each kernel, and
// the causes of those that are no programs.
func table(w io.Writer, files []string) error {
	var kernels, dirs []string
	var rows []row
	for _, file := range files {
		list, err := read(file)
		if err != nil {
			return err
		}
		rows = append(rows, list...)
	}
	for _, r := range rows {
		if !slices.Contains(kernels, r.kernel) {
			kernels = append(kernels, r.kernel)
		}
		if !slices.Contains(dirs, r.dir) {
			dirs = append(dirs, r.dir)
		}
	}
	fmt.Fprint(w, heading)
	for _, dir := range dirs {
		of := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.dir != dir })
		fmt.Fprintf(w, "\n## %s\n\n| | %s |\n|---|%s\n", dir, strings.Join(kernels, " | "), strings.Repeat("---|", len(kernels)))
		counts := map[state]map[string]int{}
		for _, s := range states {
			counts[s] = map[string]int{}
		}
		for _, r := range of {
			counts[r.state][r.kernel]++
		}
		for _, s := range states {
			fmt.Fprintf(w, "| %s |", s)
			for _, k := range kernels {
				fmt.Fprintf(w, " %d |", counts[s][k])
			}
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w)
		writeCauses(w, of, len(kernels))
	}
	return nil
}

// writeCauses prints a line for each cause and the kernels that it is for, with the scripts.
func writeCauses(w io.Writer, rows []row, all int) {
	on := map[state]map[string]map[string][]string{} // kernels by state, cause and script
	for _, r := range rows {
		if r.state == isProgram || r.state == hasStandIns {
			continue
		}
		if on[r.state] == nil {
			on[r.state] = map[string]map[string][]string{}
		}
		if on[r.state][r.cause] == nil {
			on[r.state][r.cause] = map[string][]string{}
		}
		on[r.state][r.cause][r.name] = append(on[r.state][r.cause][r.name], r.kernel)
	}
	for _, s := range states {
		for _, cause := range slices.Sorted(maps.Keys(on[s])) {
			scripts := map[string][]string{} // by the kernels
			for _, name := range slices.Sorted(maps.Keys(on[s][cause])) {
				where := strings.Join(on[s][cause][name], ", ")
				if len(on[s][cause][name]) == all {
					where = "all"
				}
				scripts[where] = append(scripts[where], name)
			}
			for _, where := range slices.Sorted(maps.Keys(scripts)) {
				which := strings.Join(scripts[where], ", ")
				if s == isWrong { // which is nothing of the kernel's, or of ours
					which = fmt.Sprint(len(scripts[where]), " scripts")
				}
				fmt.Fprintf(w, "* %s on %s: `%s`: %s\n", s, where, strings.ReplaceAll(cause, "`", "'"), which)
			}
		}
	}
}

// read reads what a run printed.
func read(file string) ([]row, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	var rows []row
	kernel := ""
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20) // a verifier's log is one line
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "kernel "); ok {
			kernel = name
		}
		if part := strings.Split(lines.Text(), "\t"); len(part) == 4 && kernel != "" {
			rows = append(rows, row{kernel, part[0], part[1], result{state(part[2]), part[3]}})
		}
	}
	return rows, errors.Join(lines.Err(), f.Close())
}
