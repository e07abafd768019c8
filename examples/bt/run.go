package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/borescope/borescope/mapx/recording/hostfs"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
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
func run(args []string, stdin io.Reader, stdout, stderr *cli.Output) error {
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
	out, err := o.process(name, text, params, stderr)
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

// process runs the passes up to the requested stage. It prints warnings to stderr.
func (o *options) process(name string, text []byte, params []string, stderr *cli.Output) (
	[]byte, error,
) {
	if o.format {
		f, err := syntax.Parse(name, text, nil) // without conditions: all of it is formatted
		if es, ok := errors.AsType[syntax.Errors](err); ok {
			return nil, refuse(name, es, stderr)
		}
		return syntax.Format(f), nil
	}
	through, shown := script.Check, typed
	switch o.stage {
	case "":
		shown = nothing
	case "ast":
		through, shown = script.Read, tree
	case "types":
	default:
		return nil, fmt.Errorf("-d %s: there is no such stage: use ast or types", o.stage)
	}
	sys := o.system()
	c, err := through(name, string(text), &script.Options{
		System: sys, Imports: o.dirs(name), Environ: os.LookupEnv,
		Params: params, Unsafe: o.unsafe,
	})
	if es, ok := errors.AsType[syntax.Errors](err); ok {
		return nil, errors.Join(refuse(name, es, stderr), sys.Err())
	}
	return shown(c), stderr.Text(c.Warnings.String())
}

// refuse prints the errors of a script.
func refuse(name string, es syntax.Errors, stderr *cli.Output) error {
	return cmp.Or(stderr.Text(es.String()), fmt.Errorf("%s: %w", name, errRefused))
}

func nothing(*script.Checked) []byte { return nil }

func tree(c *script.Checked) []byte { return syntax.Dump(c.File) }

func typed(c *script.Checked) []byte {
	const head = "// Functions\n// Variables\n// Program\n"
	return append([]byte(head), syntax.DumpNotes(c.Types.File, func(x syntax.Expr) string {
		return c.Types.Type(x).String()
	})...)
}

// dirs returns the directory in which imports are looked for: the script's.
func (o *options) dirs(file string) []script.Dir {
	dir := "."
	if o.script == "" {
		dir = filepath.Dir(file)
	}
	return []script.Dir{{Name: dir, FS: hostfs.Dir(dir)}}
}

// system returns the machine that the script is compiled for.
func (o *options) system() *system.System {
	var e *probe.EnvOptions
	if o.root != "" {
		e = &probe.EnvOptions{Root: hostfs.Dir(o.root)}
	}
	return system.New(probe.NewEnv(e), &system.Options{DWARF: true})
}
