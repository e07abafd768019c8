package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// heading precedes the table.
const heading = `# bpftrace's tools, beside work that they must see

"seen": the tool printed what its process did. "not here": the machine lacks the probe, the type or the function, as the list below
says. "no work": the machine lacks what the process would need. The first is a machine without kprobes, with a loop device for a
disk; the others are guests with Debian's programs. Written by [bttools](main.go); the tools are bpftrace 0.26.1's.

`

// table prints what runs printed, a column for each kernel and a row for each tool.
func table(w io.Writer, files []string) error {
	var kernels []string
	rows := map[string]map[string]string{} // by tool and kernel
	causes := map[string]map[string][]string{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		kernel := ""
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if name, ok := strings.CutPrefix(lines.Text(), "kernel "); ok {
				kernel = name
				kernels = append(kernels, name)
			}
			tool, result, ok := strings.Cut(lines.Text(), "\t")
			if !ok || kernel == "" {
				continue
			}
			if rows[tool] == nil {
				rows[tool], causes[tool] = map[string]string{}, map[string][]string{}
			}
			state, cause, _ := strings.Cut(result, ": ")
			rows[tool][kernel] = state
			if state != "seen" && !slices.Contains(causes[tool][cause], kernel) {
				causes[tool][cause] = append(causes[tool][cause], kernel)
			}
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	fmt.Fprint(w, heading)
	fmt.Fprintf(w, "| tool | %s |\n|---|%s\n", strings.Join(kernels, " | "), strings.Repeat("---|", len(kernels)))
	for _, tool := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(w, "| %s |", tool)
		for _, k := range kernels {
			fmt.Fprintf(w, " %s |", rows[tool][k])
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	for _, tool := range slices.Sorted(maps.Keys(causes)) {
		for _, cause := range slices.Sorted(maps.Keys(causes[tool])) {
			fmt.Fprintf(w, "* %s on %s: %s\n", tool, strings.Join(causes[tool][cause], ", "), cause)
		}
	}
	return nil
}
