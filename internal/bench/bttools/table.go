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
