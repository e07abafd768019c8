// Command btsnippets compares packages probe/script/syntax and types with bpftrace by the
// snippets in bpftrace's own tests, which it reads from a checkout of v0.26.1:
//
//	go -C internal/bench run ./btsnippets -suite DIR [-old DIR] [-book DIR] [-guests] [-v]
//
// For each of the suite's files it prints how many snippets are accepted or refused alike,
// how many exact error texts are the same, and how many scripts parse to the same tree after
// formatting and do not change when they are formatted again. Then it types whole scripts, and
// the programs of the runtime suite, for this machine and, with -guests, for the guests' kernels.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/vmtest/kernel"
)

func main() {
	suite := flag.String("suite", "", "a bpftrace checkout at v0.26.1")
	old := flag.String("old", "", "a bpftrace checkout at v0.17.0, whose tools are typed too")
	book := flag.String("book", "", "the scripts of the book, a folder with .bt files in it")
	guests := flag.Bool("guests", false, "type scripts for the kernels of the guests, too")
	verbose := flag.Bool("v", false, "list the differences")
	flag.Parse()
	if *suite == "" {
		fmt.Fprintln(os.Stderr, "btsnippets: -suite is missing: name a bpftrace checkout")
		os.Exit(2)
	}
	if err := run(*suite, *old, *book, *guests, *verbose, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "btsnippets:", err)
		os.Exit(1)
	}
}

func run(suite, old, book string, guests, verbose bool, w io.Writer) error {
	var details strings.Builder
	fmt.Fprintf(w, "%-28s %9s %9s %9s %9s\n", "", "snippets", "alike", "texts", "format")
	k, err := readKernel(filepath.Join(suite, "tests/data/data_source.c"))
	if err != nil {
		return err
	}
	for _, r := range rows() {
		b, err := os.ReadFile(filepath.Join(suite, "tests", r.file))
		if err != nil {
			return err
		}
		s := newScore(r.file, &details)
		for _, sn := range r.snippets(string(b)) {
			sn.kernel = k
			s.add(sn)
		}
		s.print(w)
	}
	for _, d := range []struct{ name, dir, ext string }{
		{"tools", filepath.Join(suite, "tools"), ".bt"},
		{"stdlib", filepath.Join(suite, "src/stdlib"), ".bt"},
		{"tests, .bt", filepath.Join(suite, "tests"), ".bt"},
		{"book", book, ".bt"},
	} {
		if d.dir == "" {
			continue
		}
		list, err := scripts(d.dir, d.ext)
		if err != nil {
			return err
		}
		s := newScore(d.name, &details)
		s.timed = true
		for _, sn := range list {
			s.add(sn)
		}
		s.print(w)
	}
	progs, err := runtimeProgs(filepath.Join(suite, "tests/runtime"))
	if err != nil {
		return err
	}
	s := newScore("runtime PROG", &details)
	for _, sn := range progs {
		s.add(sn)
	}
	s.print(w)
	if verbose {
		if _, err := io.WriteString(w, details.String()); err != nil {
			return err
		}
	}
	return typeAll(w, suite, old, book, guests)
}

// typeAll types whole scripts for this machine and, if guests is true, for the kernels of the
// guests.
func typeAll(w io.Writer, suite, old, book string, guests bool) error {
	var lists []list
	for _, d := range []struct{ name, dir string }{
		{"tools", filepath.Join(suite, "tools")},
		{"tools of 0.17", filepath.Join(old, "tools")},
		{"book", book},
	} {
		if d.dir == "" || d.dir == "tools" {
			continue
		}
		found, err := scripts(d.dir, ".bt")
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("%s has no scripts", d.dir)
		}
		if d.name == "tools" {
			proper, older := found[:0:0], found[:0:0]
			for _, sn := range found {
				if strings.HasPrefix(sn.where, "old"+string(filepath.Separator)) {
					older = append(older, sn)
				} else {
					proper = append(proper, sn)
				}
			}
			lists = append(lists, list{"tools, old", older})
			found = proper
		}
		lists = append(lists, list{d.name, found})
	}
	run, err := runtimeTests(filepath.Join(suite, "tests/runtime"))
	if err != nil {
		return err
	}
	lists = append(lists, list{"runtime suite", run})
	events, err := formats()
	if err != nil {
		return err
	}
	here, err := hereSystem(events)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "\nthis machine")
	if err := typeLists(w, here, lists); err != nil {
		return err
	}
	if !guests {
		return nil
	}
	for _, version := range kernel.Versions() {
		sys, err := guestSystem(version, events)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\nLinux %s\n", version)
		if err := typeLists(w, sys, lists); err != nil {
			return err
		}
	}
	return nil
}

// scripts reads the scripts below a folder.
func scripts(dir, ext string) ([]snippet, error) {
	var list []snippet
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ext || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		list = append(list, snippet{where: rel, src: string(b), accepted: true})
		return err
	})
	return list, err
}

func newScore(name string, details *strings.Builder) *score {
	return &score{name: name, details: details}
}

// score has the counts for one line of the table.
type score struct {
	name                     string
	details                  *strings.Builder
	total, alike             int
	texts, sameTexts         int
	formats, stable, skipped int
	asked, answered          int // types of variables and maps
	timed                    bool
	times                    []time.Duration
}

func (s *score) print(w io.Writer) {
	fmt.Fprintf(w, "%-28s %9d %9d %4d/%-4d %4d/%-4d", s.name, s.total, s.alike, s.sameTexts, s.texts,
		s.stable, s.formats)
	if s.asked > 0 {
		fmt.Fprintf(w, "  types %d/%d", s.answered, s.asked)
	}
	if s.skipped > 0 {
		fmt.Fprintf(w, "  (%d not read: not constant)", s.skipped)
	}
	if len(s.times) > 0 {
		sort.Slice(s.times, func(i, j int) bool { return s.times[i] < s.times[j] })
		fmt.Fprintf(w, "  median %v", s.times[len(s.times)/2])
	}
	fmt.Fprintln(w)
}

func (s *score) differs(sn snippet, format string, args ...any) {
	fmt.Fprintf(s.details, "\n== %s %s\n%s\n-- %s\n", s.name, sn.where, sn.src,
		fmt.Sprintf(format, args...))
}
