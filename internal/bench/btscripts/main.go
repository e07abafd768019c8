// Command btscripts compiles the scripts of directories for this machine and tells what becomes of
// each: of those that become programs whether the kernel's verifier takes them, and of the others
// what this kernel lacks, what the script has wrong, or what the language has and programs do not:
//
//	go -C internal/bench run ./btscripts DIR…           # counts, and what is missing
//	go -C internal/bench run ./btscripts -load -v DIR…  # loaded as root, with a line for each script
//	go -C internal/bench run ./btscripts -table FILE…   # what that printed, as a table by kernel
//	go -C internal/bench run ./btscripts -both DIR…     # compiled with few and with all types
//
// Nothing is attached. A script that is for functions or files of other machines is compiled for
// others in their place, and loaded: the verifier knows of a kprobe's function as little as of a
// uprobe's file. So are kprobes on a kernel without them. Status 1: the verifier refused a script.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script"
)

func main() {
	load := flag.Bool("load", false, "load the programs into the kernel, too, as root")
	each := flag.Bool("v", false, "print a line for each script")
	both := flag.Bool("both", false, "compile each script with the types that it names and with all of the\n"+
		"kernel's, and print those that differ")
	page := flag.Bool("table", false, "print the table of what runs with -load -v printed")
	flag.Parse()
	var err error
	switch {
	case *page:
		err = table(os.Stdout, flag.Args())
	case *both:
		for _, dir := range flag.Args() {
			err = errors.Join(err, differing(dir))
		}
	default:
		err = run(flag.Args(), *load, *each)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "btscripts:", err)
		os.Exit(1)
	}
}

// run prints what becomes of the scripts of directories: each if asked to, and how many there are of
// each kind.
func run(dirs []string, load, each bool) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	fmt.Println("kernel", unix.ByteSliceToString(u.Release[:]))
	env := machine()
	refused := 0
	for _, dir := range dirs {
		counts := map[state]int{}
		missing := map[string]int{}
		err := scripts(dir, func(path, text string) {
			r := try(env, path, text, load)
			counts[r.state]++
			if r.state == notYet {
				missing[r.cause]++
			}
			if r.state == isRefused {
				refused++
			}
			if each || r.state == isRefused {
				name, err := filepath.Rel(dir, path)
				if err != nil {
					name = path
				}
				fmt.Printf("%s\t%s\t%s\t%s\n", filepath.Base(dir), name, r.state, r.cause)
			}
		})
		if err != nil {
			return err
		}
		fmt.Printf("%s:", dir)
		for _, s := range states {
			fmt.Printf(" %d %s;", counts[s], s)
		}
		fmt.Println()
		for _, what := range slices.Sorted(maps.Keys(missing)) {
			fmt.Printf("  %4d %s\n", missing[what], what)
		}
	}
	if refused > 0 {
		return fmt.Errorf("the verifier refused %d scripts", refused)
	}
	return nil
}

// differing prints the scripts whose programs or errors depend on how the kernel's types were read.
func differing(dir string) error {
	all := probe.NewEnv(nil)
	if _, err := all.BTF(); err != nil {
		return err
	}
	alike, wrong := 0, 0
	err := scripts(dir, func(path, text string) {
		named, whole := compiled(path, text, probe.NewEnv(nil)), compiled(path, text, all)
		if named == whole {
			alike++
			return
		}
		wrong++
		fmt.Printf("    %s: differs\n%s\nand with all types\n%s\n", path, named, whole)
	})
	fmt.Printf("%s: %d are alike, %d differ\n", dir, alike, wrong)
	return err
}

// compiled returns what a script becomes: its program before and after compilation, or the error.
func compiled(path, text string, env *probe.Env) string {
	p, err := script.Compile(path, text, options(env))
	if err != nil {
		return err.Error()
	}
	spec, err := bpf.Compile(p.IR(), p.Plan())
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintln(&b, p.IR(), p.Warnings)
	for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
		fmt.Fprintln(&b, name, spec.Programs[name].Instructions)
	}
	return b.String()
}

// scripts calls f for each script of a directory.
func scripts(dir string, f func(path, text string)) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".bt" {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil {
			f(path, string(text))
		}
		return err
	})
}
