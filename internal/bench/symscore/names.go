package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/borescope/borescope/symbol"
)

// readable scores names in the form for people: the output of c++filt and llvm-cxxfilt for
// the symbol at each address. The two differ, so each is a reference of its own, and the
// other one is scored next to borescope.
func readable(w *tabwriter.Writer, path string, n, runs int, verbose bool) error {
	c, err := openCase(path, n, runs)
	if err != nil {
		return err
	}
	raw, _, err := child("borescope")(c)
	if err != nil {
		return err
	}
	got, took, err := child("borescope-readable")(c)
	if err != nil {
		return err
	}
	gnu, gnuTook, err := filtered("c++filt", raw, runs)
	if err != nil {
		return err
	}
	llvm, llvmTook, err := filtered("llvm-cxxfilt", raw, runs)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		label     string
		got, want []string
		took      cost
	}{
		{"borescope to c++filt", got, gnu, took},
		{"borescope to llvm-cxxfilt", got, llvm, took},
		{"llvm-cxxfilt to c++filt", llvm, gnu, llvmTook},
		{"c++filt to llvm-cxxfilt", gnu, llvm, gnuTook},
	} {
		var s score
		for i := range raw {
			if !strings.HasPrefix(raw[i], "_Z") && !strings.HasPrefix(raw[i], "_R") {
				continue // not mangled
			}
			switch have := x.got[i]; {
			case spelling(have) == spelling(x.want[i]):
				s.right++
			case have == raw[i]:
				s.missing++
			default:
				s.wrong++
			}
			if verbose && x.label == "borescope to c++filt" && spelling(x.got[i]) != spelling(x.want[i]) {
				fmt.Fprintf(os.Stderr, "%s: got %q, want %q\n", raw[i], x.got[i], x.want[i])
			}
		}
		report(w, path, x.label, s, x.took)
	}
	return w.Flush()
}

// borescopeReadable returns the names as a user of the package gets them.
func borescopeReadable(path string, pcs []uint64) ([]string, error) {
	return resolved(path, nil, pcs, func(frames []symbol.Frame) string {
		return frames[len(frames)-1].Name
	})
}

// filtered runs a demangler on names, runs times, and returns its answers with the least
// cost.
func filtered(name string, names []string, runs int) ([]string, cost, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, cost{}, fmt.Errorf("%s: %w", name, errors.New("not installed"))
	}
	best := cost{wall: 1 << 62, cpu: 1 << 62}
	var lines []string
	for range runs {
		cmd := exec.Command(path)
		cmd.Stdin = bytes.NewReader([]byte(strings.Join(names, "\n") + "\n"))
		start := time.Now()
		out, err := cmd.Output()
		if err != nil {
			return nil, cost{}, fmt.Errorf("%s: %w", name, err)
		}
		best.wall = min(best.wall, time.Since(start))
		best.cpu = min(best.cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		lines = strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	}
	if len(lines) != len(names) {
		return nil, cost{}, fmt.Errorf("%s: %d lines for %d names", name, len(lines), len(names))
	}
	return lines, best, nil
}

// spelling removes what demanglers write differently in the same name: spaces, the standard
// abbreviations, the words for entities without a name, and the hash at the end of rustc's
// older names.
func spelling(s string) string {
	return rustHash.ReplaceAllString(strings.ReplaceAll(abbreviations.Replace(s), " ", ""), "")
}

var rustHash = regexp.MustCompile("::h[0-9a-f]{16}$")

var abbreviations = strings.NewReplacer(
	"std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string",
	"std::basic_string<char, std::char_traits<char>, std::allocator<char>>", "std::string",
	"std::basic_istream<char, std::char_traits<char> >", "std::istream",
	"std::basic_istream<char, std::char_traits<char>>", "std::istream",
	"std::basic_ostream<char, std::char_traits<char> >", "std::ostream",
	"std::basic_ostream<char, std::char_traits<char>>", "std::ostream",
	"std::basic_iostream<char, std::char_traits<char> >", "std::iostream",
	"std::basic_iostream<char, std::char_traits<char>>", "std::iostream",
	"(anonymous namespace)", "{anonymous}",
)

// readableCorpus returns files of C++ and of Rust.
func readableCorpus() []string {
	home, _ := os.UserHomeDir()
	return existing(
		"/usr/lib/*-linux-gnu/libstdc++.so.6", "/usr/lib/*-linux-gnu/libLLVM-1*.so.1",
		"/usr/lib/llvm-*/lib/libclang-cpp.so.*", "/usr/bin/node", "/usr/lib/*-linux-gnu/libx265.so.*",
		"/usr/lib/*-linux-gnu/libicui18n.so.*", "/usr/lib/jvm/java-17-openjdk-*/lib/server/libjvm.so",
		filepath.Join(home, ".cargo/bin/rustc"),
	)
}
