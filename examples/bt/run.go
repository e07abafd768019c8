package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/borescope/borescope/mapx/recording/hostfs"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/cli"
)

const usage = `bt runs scripts in bpftrace's language, as of 0.26.1.

  bt -e 'tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }'
                                           until Ctrl-C, then the maps
  bt -c 'ls /' script.bt 7 --name=value    while a command runs; $1 is 7, getopt("name") value
  bt -f json script.bt                     lines of JSON
  bt -p 1234 script.bt                     events of that process, until it ends
  bt -l 'tracepoint:syscalls:*open*'       what can be traced; with -v its arguments
  bt -l script.bt                          what the script would trace

  bt -check script.bt                      only what is wrong with it, if anything is
  bt -fmt script.bt                        as bpftrace --fmt formats it
  bt -d ast -e 'begin { @ = 1 + 2 }'       the tree, macros expanded
  bt -d types -e 'begin { @ = (1, "a") }'  the same with the type of each expression
  bt -d ir -e 'begin { @ = (1, "a") }'     the program that it becomes
  bt -names                                the builtins and functions, and bpftrace's versions

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
	script, stage, root   string
	output, command       string
	pid, child            int
	check, format, unsafe bool
	quiet, raw, self      bool
	list, verbose, dry    bool
	names                 bool
	stdin                 io.Reader
	stdout, stderr        *cli.Output
	name, text            string
	params                []string
	values                map[string]string
}

// run is the command. status is the script's, if that calls exit().
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr *cli.Output) (status int, err error) {
	o := options{stdin: stdin, stdout: stdout, stderr: stderr}
	fs := flag.NewFlagSet("bt", flag.ContinueOnError)
	fs.Usage = func() {
		io.WriteString(fs.Output(), usage)
		fs.PrintDefaults()
	}
	fs.StringVar(&o.script, "e", "", "the `SCRIPT` itself")
	fs.StringVar(&o.command, "c", "", "run this `COMMAND`, and end with it")
	fs.IntVar(&o.pid, "p", 0, "restrict probes to the process `PID`, and end with it")
	fs.BoolVar(&o.list, "l", false, "list the probes that match a pattern, or those of a script")
	fs.BoolVar(&o.verbose, "v", false, "with -l: their arguments, too")
	fs.BoolVar(&o.dry, "dry-run", false, "attach the script's probes, and end")
	fs.StringVar(&o.output, "f", "text", "the `FORMAT` of the output: text, json")
	fs.BoolVar(&o.quiet, "q", false, "do not say how many probes are attached")
	fs.BoolVar(&o.raw, "raw", false, "print text of traced processes as it is, also what terminals act on")
	fs.BoolVar(&o.self, "include-self", false, "have probes fire for bt itself, too")
	fs.BoolVar(&o.unsafe, "unsafe", false, "allow functions that change the system")
	fs.BoolVar(&o.check, "check", false, "only check the script")
	fs.BoolVar(&o.format, "fmt", false, "format the script")
	fs.BoolVar(&o.names, "names", false, "print the builtins and functions of the language, and the versions of\n"+
		"bpftrace that brought them")
	fs.StringVar(&o.stage, "d", "", "print what a `STAGE` makes: ast, types, ir")
	fs.StringVar(&o.root, "root", "", "the `FOLDER` with the files of another machine")
	if err := cli.Parse(fs, args, stdout); err != nil {
		return 0, err
	}
	if o.output != "text" && o.output != "json" {
		return 0, fmt.Errorf("-f %s: there is no such format: use text or json", o.output)
	}
	if o.names {
		return 0, o.listNames()
	}
	if o.list && o.script == "" && fs.NArg() < 2 && !strings.HasSuffix(fs.Arg(0), ".bt") && fs.Arg(0) != "-" {
		return 0, o.listMatches(fs.Arg(0))
	}
	if err := o.read(fs.Args()); err != nil {
		return 0, err
	}
	switch {
	case o.list:
		return 0, o.listScript()
	case o.format:
		return 0, o.formatted()
	case o.check || o.stage != "" || o.root != "":
		return 0, o.show()
	}
	return o.live(ctx)
}

// read reads the script and its arguments: parameters, and options as --name=value.
func (o *options) read(args []string) error {
	o.name, o.text = "stdin", o.script
	if o.script == "" {
		if len(args) == 0 {
			return errors.New("give a file, - for standard input, or -e SCRIPT")
		}
		r := o.stdin
		if args[0] != "-" {
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			r, o.name = f, args[0]
		}
		text, err := io.ReadAll(io.LimitReader(r, mostText+1)) // Parse reports that it is too long
		if err != nil {
			return err
		}
		o.text, args = string(text), args[1:]
	}
	for _, a := range args {
		option, ok := strings.CutPrefix(a, "--")
		if !ok || option == "" {
			o.params = append(o.params, a)
			continue
		}
		if o.values == nil {
			o.values = map[string]string{}
		}
		name, value, _ := strings.Cut(option, "=")
		o.values[name] = value
	}
	return nil
}

// options returns the options of package script.
func (o *options) options() *script.Options {
	var e *probe.EnvOptions
	if o.root != "" {
		e = &probe.EnvOptions{Root: hostfs.Dir(o.root)}
	}
	dir := "."
	if o.script == "" {
		dir = filepath.Dir(o.name)
	}
	env := probe.NewEnv(e)
	return &script.Options{
		Env: env, System: system.New(env, &system.Options{DWARF: true}),
		Imports: []script.Dir{{Name: dir, FS: hostfs.Dir(dir)}}, Environ: os.LookupEnv,
		Params: o.params, Values: o.values, Unsafe: o.unsafe, PID: o.pid, Child: o.child, IncludeSelf: o.self,
	}
}

// formatted prints the script as bpftrace formats it.
func (o *options) formatted() error {
	f, err := syntax.Parse(o.name, []byte(o.text), nil) // without conditions: all of it is formatted
	if err != nil {
		return o.refused(err)
	}
	return o.stdout.Text(string(syntax.Format(f)))
}

// show prints what a stage makes of the script, and warnings.
func (o *options) show() error {
	through, shown := script.Check, typed
	switch o.stage {
	case "":
		shown = nothing
	case "ast":
		through, shown = script.Read, tree
	case "types":
	case "ir":
		p, err := o.compile()
		if err != nil {
			return err
		}
		return o.stdout.Text(p.IR().String())
	default:
		return fmt.Errorf("-d %s: there is no such stage: use ast, types or ir", o.stage)
	}
	c, err := through(o.name, o.text, o.options())
	if err != nil {
		return o.refused(err)
	}
	if err := o.stderr.Text(c.Warnings.String()); err != nil {
		return err
	}
	return o.stdout.Text(string(shown(c)))
}

// compile makes the program of the script, and prints warnings.
func (o *options) compile() (*script.Program, error) {
	p, err := script.Compile(o.name, o.text, o.options())
	if err != nil {
		return nil, o.refused(err)
	}
	return p, o.stderr.Text(p.Warnings.String())
}

// live runs the script, with the command if there is one.
func (o *options) live(ctx context.Context) (status int, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r := &script.RunOptions{
		Stdout: o.stdout.Raw(), Stderr: o.stderr.Raw(), JSON: o.output == "json", Raw: o.raw, Quiet: o.quiet,
	}
	if o.command != "" {
		child, err := tool.StartCommand(o.command, os.Stdout) // it waits until the probes are attached
		if err != nil {
			return 0, err
		}
		o.child = child.PID
		ended := make(chan struct{})
		started := false
		r.Attached = func() error {
			started = true
			go func() {
				defer close(ended)
				defer stop()
				child.Wait()
			}()
			return child.Go()
		}
		defer func() {
			err = errors.Join(err, child.Kill())
			if started {
				<-ended
			} else {
				child.Wait()
			}
		}()
	}
	if o.pid != 0 {
		if err := o.follow(ctx, stop); err != nil {
			return 0, err
		}
	}
	p, err := o.compile()
	if err != nil {
		return 0, err
	}
	if o.dry {
		r.Attached = func() error { return errDry }
	}
	status, err = p.Run(ctx, r)
	if errors.Is(err, errDry) {
		return 0, nil
	}
	return status, err
}

// errDry ends a run when everything is attached.
var errDry = errors.New("dry run")

var errRefused = errors.New("the script has errors")

// refused prints the errors of a script. Other errors are returned.
func (o *options) refused(err error) error {
	es, ok := errors.AsType[syntax.Errors](err)
	if !ok {
		return err
	}
	return cmp.Or(o.stderr.Text(es.String()), fmt.Errorf("%s: %w", o.name, errRefused))
}

func nothing(*script.Checked) []byte { return nil }

func tree(c *script.Checked) []byte { return syntax.Dump(c.File) }

func typed(c *script.Checked) []byte {
	const head = "// Functions\n// Variables\n// Program\n"
	return append([]byte(head), syntax.DumpNotes(c.Types.File, func(x syntax.Expr) string {
		return c.Types.Type(x).String()
	})...)
}
