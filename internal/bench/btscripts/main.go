// Command btscripts compiles the scripts of directories for this machine, and prints how many
// become programs, and what the language has and programs do not, with how many scripts use it:
//
//	go -C internal/bench run ./btscripts DIR…
//
// A script whose probes are not on this machine counts as one that becomes a program. Scripts that
// have errors are left out.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
	"github.com/borescope/borescope/probe/script/types"
)

func main() {
	load := flag.Bool("load", false, "load the programs into the kernel, too")
	names := flag.Bool("v", false, "print each script that becomes no program")
	both := flag.Bool("both", false, "compile each script with the types that it names and with all of the\n"+
		"kernel's, and print those that differ")
	flag.Parse()
	env := probe.NewEnv(nil)
	for _, dir := range flag.Args() {
		if *both {
			if err := differing(dir); err != nil {
				fmt.Fprintln(os.Stderr, "btscripts:", err)
				os.Exit(1)
			}
			continue
		}
		if err := report(env, dir, *load, *names); err != nil {
			fmt.Fprintln(os.Stderr, "btscripts:", err)
			os.Exit(1)
		}
	}
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

// errAbsent is the error for a script that could become a program on another machine.
var errAbsent = errors.New("its probes are not on this machine")

// compile compiles a script. If only its probes are not here, all else of it is compiled, too.
func compile(path, text string, env *probe.Env) (*script.Program, error) {
	p, err := script.Compile(path, text, options(env))
	said, ok := errors.AsType[syntax.Errors](err)
	if !ok || slices.ContainsFunc(said, func(e *syntax.Error) bool {
		return e.Severity == syntax.SeverityError && !strings.HasPrefix(e.Msg, "No matches for ") &&
			!strings.HasPrefix(e.Msg, "Probe has no valid attach points.")
	}) {
		return p, err
	}
	o := options(env)
	o.System = struct{ types.System }{system.New(env, &system.Options{DWARF: true})} // which looks for no probes
	if _, err = script.Compile(path, text, o); err == nil {
		err = errAbsent
	}
	return nil, err
}

func options(env *probe.Env) *script.Options {
	return &script.Options{Env: env, Unsafe: true, Params: []string{"1", "1", "1"}}
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

// report prints a directory's row, and what is missing for its scripts.
func report(env *probe.Env, dir string, load, names bool) error {
	var whole, part, absent, wrong, loaded int
	missing := map[string]int{}
	err := scripts(dir, func(path, text string) {
		p, err := compile(path, text, env)
		var said syntax.Errors
		switch {
		case err == nil:
			whole++
			if load {
				if err := p.Load(); err != nil {
					fmt.Printf("    %s: %v\n", path, err)
				} else {
					loaded++
				}
			}
		case !errors.As(err, &said):
			absent++
			if names {
				fmt.Printf("    %s: %v\n", path, err)
			}
		case !strings.Contains(said.String(), script.NotYet):
			wrong++
		default:
			part++
			seen := map[string]bool{}
			for _, e := range said {
				if what, ok := strings.CutSuffix(e.Msg, script.NotYet); ok && !seen[what] {
					seen[what] = true
					missing[what]++
				}
			}
			if names {
				fmt.Printf("    %s: %s\n", path, strings.Join(slices.Sorted(maps.Keys(seen)), "; "))
			}
		}
	})
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d become programs (%d loaded), %d without their probes here, %d not yet, %d have errors\n",
		dir, whole+absent, loaded, absent, part, wrong)
	list := slices.SortedFunc(maps.Keys(missing), func(a, b string) int {
		return cmp.Or(cmp.Compare(missing[b], missing[a]), cmp.Compare(a, b))
	})
	for _, what := range list {
		fmt.Printf("  %4d %s\n", missing[what], what)
	}
	return nil
}
