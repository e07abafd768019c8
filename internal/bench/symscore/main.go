// Command symscore scores symbolizers. For each file of a corpus that is on this machine, it
// draws addresses, takes the answers of a reference tool, and counts how many of each tool's
// answers are right, wrong and missing, and their cost. Each tool is a process of its own.
//
//	go -C internal/bench run ./symscore [-n 2000] [-runs 3] [-match libm]
//	go -C internal/bench run ./symscore -speed
//
// Functions are scored against eu-addr2line, the only one of the tools that respects symbols'
// sizes and nesting; an alias (a symbol of the same address and size) is as right as the name
// itself. Readable names are scored against c++filt and llvm-cxxfilt, which differ. Chains of
// inlined calls with their lines are scored against llvm-symbolizer. With -speed it measures
// the cost for a program that imports the package, next to that of the alternatives.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	runs := flag.Int("runs", 3, "how often each tool is run; the best counts")
	verbose := flag.Bool("v", false, "print our wrong answers")
	match := flag.String("match", "", "only files whose name holds this")
	speed := flag.Bool("speed", false, "measure the package inside a program")
	name := flag.String("child", "", "answer for FILE as this tool: for symscore itself")
	own := flag.Bool("callers", false,
		"print what the runtime says of this program: for symscore itself")
	flag.Parse()
	var err error
	switch {
	case *name != "":
		err = runChild(*name, flag.Arg(0), os.Stdin, os.Stdout)
	case *own:
		err = callers(os.Stdout, *n)
	case *speed:
		err = measure(os.Stdout)
	default:
		err = run(*n, *runs, *verbose, *match)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "symscore:", err)
		os.Exit(1)
	}
}

func run(n, runs int, verbose bool, match string) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "FUNCTIONS (reference eu-addr2line)\ttool\tright\twrong\tmissing\tms\tcpu ms")
	for _, path := range matching(corpus(), match) {
		if err := functions(w, path, n, runs, verbose); err != nil {
			fmt.Fprintf(w, "%s\t%v\n", filepath.Base(path), err)
		}
	}
	fmt.Fprintln(w, "\t\t\t\t\t\t\nREADABLE NAMES (references c++filt, llvm-cxxfilt)\ttool\tright\twrong\tmissing\tms\tcpu ms")
	named := readableCorpus()
	if !strings.Contains("readable names", match) {
		named = matching(named, match)
	}
	for _, path := range named {
		if err := readable(w, path, n, runs, verbose); err != nil {
			fmt.Fprintf(w, "%s\t%v\n", filepath.Base(path), err)
		}
	}
	fmt.Fprintln(w, "\t\t\t\t\t\t\nINLINED CALLS AND LINES (reference llvm-symbolizer)\ttool\tright\twrong\tmissing\tms\tcpu ms")
	dir, err := os.MkdirTemp("", "symscore")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, path := range matching(debugCorpus(dir), match) {
		if err := inlines(w, path, n, runs, verbose); err != nil {
			fmt.Fprintf(w, "%s\t%v\n", filepath.Base(path), err)
		}
	}
	if strings.Contains("go callers", match) {
		fmt.Fprintln(w, "\t\t\t\t\t\t\nGO CALLERS (reference runtime.CallersFrames)\ttool\tright\twrong\tmissing\tms\tcpu ms")
		if err := goCallers(w, n, runs, verbose); err != nil {
			return err
		}
	}
	if strings.Contains("jit", match) {
		fmt.Fprintln(w, "\t\t\t\t\t\t\nGENERATED CODE (reference perf script)\ttool\tright\twrong\tmissing\tms\tcpu ms")
		return jit(w, verbose)
	}
	return nil
}

// matching returns the files whose names contain a text.
func matching(files []string, text string) []string {
	return slices.DeleteFunc(files, func(f string) bool { return !strings.Contains(f, text) })
}

// functions scores all tools on one file.
func functions(w *tabwriter.Writer, path string, n, runs int, verbose bool) error {
	c, err := openCase(path, n, runs)
	if err != nil {
		return err
	}
	want, took, err := euAddr2line(c)
	if err != nil {
		return err
	}
	report(w, path, "eu-addr2line", score{right: len(want)}, took)
	for _, t := range []tool{
		{"borescope", child("borescope")},
		{"llvm-symbolizer", llvmFunctions},
		{"addr2line", addr2line},
		{"blazesym", blazesym("names")},
		{"libbcc", libbcc},
		{"debug/elf", child("debug/elf")},
	} {
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
		report(w, path, t.name, s, took)
	}
	return w.Flush()
}

// inlines scores borescope and GNU addr2line on chains of calls.
func inlines(w *tabwriter.Writer, path string, n, runs int, verbose bool) error {
	c, err := openCase(path, n, runs)
	if err != nil {
		return err
	}
	want, took, err := llvmChains(c)
	if err != nil {
		return err
	}
	report(w, path, "llvm-symbolizer", score{right: len(want)}, took)
	for _, t := range []tool{
		{"borescope", child("borescope-chains")},
		{"addr2line", addr2lineChains},
		{"blazesym", blazesym("chains")},
		{"debug/dwarf", child("debug/dwarf")},
	} {
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
		report(w, path, t.name, s, took)
	}
	return w.Flush()
}

func report(w *tabwriter.Writer, path, name string, s score, c cost) {
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%.0f\t%.0f\n", filepath.Base(path), name, s.right, s.wrong,
		s.missing,
		ms(c.wall), ms(c.cpu))
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
