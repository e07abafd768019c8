package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/borescope/borescope/mapx/recording/hostfs"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/imports"
	"github.com/borescope/borescope/probe/script/library"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
	"github.com/borescope/borescope/probe/script/system"
	"github.com/borescope/borescope/probe/script/types"
	"github.com/borescope/borescope/probe/tool/cli"
)

const usage = `bt reads scripts in bpftrace's language, as of 0.26.1. It runs nothing yet.

  bt -fmt script.bt                        as bpftrace --fmt formats it
  bt -d ast -e 'begin { @ = 1 + 2 }'       the tree, macros expanded
  bt -d types -e 'begin { @ = (1, "a") }'  the same with the type of each expression
  bt script.bt                             only what is wrong with it, if anything is

A file "-" is standard input. Structs and arguments of probes are those of this machine's
kernel; with -root those of a machine whose files are in a folder, such as
sys/kernel/btf/vmlinux and sys/kernel/tracing/events. Environment variables such as
BPFTRACE_MAX_PROBES=2000 precede a script's config block.

Flags:
`

// mostText is the greatest length of a script in bytes.
const mostText = 256 << 10

// options holds the flags.
type options struct {
	script, stage  string
	root           string
	format, unsafe bool
}

// run is the command.
func run(args []string, stdin io.Reader, stdout *cli.Output) error {
	var o options
	fs := flag.NewFlagSet("bt", flag.ContinueOnError)
	fs.Usage = func() {
		io.WriteString(fs.Output(), usage)
		fs.PrintDefaults()
	}
	fs.StringVar(&o.script, "e", "", "the `SCRIPT` itself")
	fs.StringVar(&o.stage, "d", "", "print what a `STAGE` makes: ast, types")
	fs.StringVar(&o.root, "root", "", "the `FOLDER` with the files of another machine")
	fs.BoolVar(&o.format, "fmt", false, "format the script")
	fs.BoolVar(&o.unsafe, "unsafe", false, "allow functions that change the system")
	if err := cli.Parse(fs, args, stdout); err != nil {
		return err
	}
	name, params := "stdin", fs.Args()
	text := []byte(o.script)
	if o.script == "" {
		if len(params) == 0 {
			return errors.New("give a file, - for standard input, or -e SCRIPT")
		}
		var err error
		if name, text, err = read(params[0], stdin); err != nil {
			return err
		}
		params = params[1:]
	}
	out, err := o.process(name, text, params)
	if es, ok := errors.AsType[syntax.Errors](err); ok {
		if err := stdout.Text(es.String()); err != nil {
			return err
		}
		return fmt.Errorf("%s: %w", name, errRefused)
	}
	if err != nil {
		return err
	}
	return stdout.Text(string(out))
}

var errRefused = errors.New("the script has errors")

// read reads a script.
func read(file string, stdin io.Reader) (name string, text []byte, err error) {
	r, name := stdin, "stdin"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", nil, err
		}
		defer f.Close()
		r, name = f, file
	}
	text, err = io.ReadAll(io.LimitReader(r, mostText+1)) // Parse reports that it is too long
	return name, text, err
}

// process runs the passes up to the requested stage.
func (o *options) process(name string, text []byte, params []string) ([]byte, error) {
	conditions := &syntax.Options{Defined: defined}
	if o.format {
		conditions = nil // all of it is formatted
	}
	f, err := syntax.Parse(name, text, conditions)
	if err != nil {
		return nil, err
	}
	if o.format {
		return syntax.Format(f), nil
	}
	switch o.stage {
	case "", "ast", "types":
	default:
		return nil, fmt.Errorf("-d %s: there is no such stage: use ast or types", o.stage)
	}
	warnings, err := imports.Load(f, &imports.Options{
		Dirs: o.dirs(name), Syntax: conditions,
	})
	if err != nil {
		return nil, err
	}
	c, more, err := config.Read(f, &config.Options{Environ: os.LookupEnv})
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, more...)
	if err := syntax.Expand(f,
		&syntax.ExpandOptions{Library: library.Macros(), Builtin: types.Library}); err != nil {
		return nil, err
	}
	if o.stage == "ast" {
		return syntax.Dump(f), nil
	}
	points := &attach.Options{
		Params: params, Unsafe: o.unsafe, MayMiss: c.MissingProbes != "error",
	}
	if err := attach.Parse(f, points); err != nil {
		return nil, err
	}
	if err := attach.Check(f, points); err != nil {
		return nil, err
	}
	sys := o.system()
	if err := sys.Expand(f, c); err != nil {
		return nil, err
	}
	p, err := types.Check(f, &types.Options{
		System: sys, Config: c, Params: params, Unsafe: o.unsafe,
	})
	if err != nil {
		return nil, errors.Join(err, sys.Err())
	}
	if o.stage == "" {
		return []byte(append(warnings, p.Warnings...).String()), nil
	}
	const head = "// Functions\n// Variables\n// Program\n"
	return append([]byte(head), syntax.DumpNotes(p.File, func(x syntax.Expr) string {
		return p.Type(x).String()
	})...), nil
}

// defined reports whether a name is defined for #ifdef: types come from BTF, not from
// headers.
func defined(name string) bool { return name == "BPFTRACE_HAVE_BTF" }

// dirs returns the directory in which imports are looked for: the script's.
func (o *options) dirs(script string) []imports.Dir {
	dir := "."
	if o.script == "" {
		dir = filepath.Dir(script)
	}
	return []imports.Dir{{Name: dir, FS: hostfs.Dir(dir)}}
}

// system returns the machine that the script is compiled for.
func (o *options) system() *system.System {
	var e *probe.EnvOptions
	if o.root != "" {
		e = &probe.EnvOptions{Root: hostfs.Dir(o.root)}
	}
	return system.New(probe.NewEnv(e), &system.Options{DWARF: true})
}
