// Command symscore scores symbolizers: for each file of a corpus, what is on
// this machine, it draws addresses, takes the answers of a reference tool, and
// counts how many of each tool's answers are right, wrong and missing.
//
//	go -C internal/bench run ./symscore [-n 2000]
//
// Functions are scored against eu-addr2line, the only tool of those that honours
// symbols' sizes and nesting; an alias (a symbol of the same address and size) is
// as right as the name itself. Chains of inlined calls with their lines are
// scored against llvm-symbolizer.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"
)

// score counts answers.
type score struct{ right, wrong, missing int }

func (s *score) add(got, want string, same func(a, b string) bool) {
	switch {
	case got == want || same(got, want):
		s.right++
	case got == "":
		s.missing++
	default:
		s.wrong++
	}
}

func main() {
	n := flag.Int("n", 2000, "addresses per file")
	verbose := flag.Bool("v", false, "print our wrong answers")
	flag.Parse()
	if err := run(*n, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "symscore:", err)
		os.Exit(1)
	}
}

func run(n int, verbose bool) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "FUNCTIONS (reference eu-addr2line)\ttool\tright\twrong\tmissing\tms")
	for _, path := range corpus() {
		if err := functions(w, path, n, verbose); err != nil {
			fmt.Fprintf(w, "%s\t%v\n", filepath.Base(path), err)
		}
	}
	fmt.Fprintln(w, "\t\t\t\t\t\nINLINED CALLS AND LINES (reference llvm-symbolizer)\ttool\tright\twrong\tmissing\tms")
	dir, err := os.MkdirTemp("", "symscore")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, path := range debugCorpus(dir) {
		if err := inlines(w, path, n, verbose); err != nil {
			fmt.Fprintf(w, "%s\t%v\n", filepath.Base(path), err)
		}
	}
	return nil
}

// functions scores all tools on one file.
func functions(w *tabwriter.Writer, path string, n int, verbose bool) error {
	c, err := openCase(path, n)
	if err != nil {
		return err
	}
	want, _, err := euAddr2line(c)
	if err != nil {
		return err
	}
	for _, t := range []tool{{"borescope", borescope}, {"llvm-symbolizer", llvmFunctions}, {"addr2line", addr2line}} {
		got, took, err := t.ask(c)
		if err != nil {
			fmt.Fprintf(w, "%s\t%s\t%v\n", filepath.Base(path), t.name, err)
			continue
		}
		var s score
		for i := range want {
			before := s.wrong
			s.add(got[i], want[i], c.aliasesAt(c.pcs[i]))
			if verbose && t.name == "borescope" && s.wrong != before {
				fmt.Fprintf(os.Stderr, "%s %#x: got %q, want %q\n", path, c.pcs[i], got[i], want[i])
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%.0f\n", filepath.Base(path), t.name, s.right, s.wrong, s.missing, ms(took))
	}
	return w.Flush()
}

// inlines scores us, and GNU addr2line, on chains of calls.
func inlines(w *tabwriter.Writer, path string, n int, verbose bool) error {
	c, err := openCase(path, n)
	if err != nil {
		return err
	}
	want, took, err := llvmChains(c)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\tllvm-symbolizer\t%d\t0\t0\t%.0f\n", filepath.Base(path), len(want), ms(took))
	for _, t := range []tool{{"borescope", borescopeChains}, {"addr2line", addr2lineChains}} {
		got, took, err := t.ask(c)
		if err != nil {
			fmt.Fprintf(w, "%s\t%s\t%v\n", filepath.Base(path), t.name, err)
			continue
		}
		var s score
		for i := range want {
			if want[i] == "" {
				continue // nothing to compare with
			}
			before := s.right
			s.add(got[i], want[i], func(a, b string) bool { return false })
			if verbose && t.name == "borescope" && s.right == before {
				fmt.Fprintf(os.Stderr, "%s %#x: got %q, want %q\n", path, c.pcs[i], got[i], want[i])
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%.0f\n", filepath.Base(path), t.name, s.right, s.wrong, s.missing, ms(took))
	}
	return w.Flush()
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
