package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/borescope/borescope/mapx/recording/hostfs"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/output"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/cli"
)

// calls are what is printed of the usage behind a wrong call, too.
const calls = `USAGE:
  bt -e 'tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }'
                                           until Ctrl-C, then the maps
  bt -c 'ls /' script.bt 7 -- --name=value while a command runs; $1 is 7, getopt("name") value
  bt -f json script.bt                     lines of JSON
  bt -p 1234 script.bt                     events of that process, until it ends
  bt -l 'tracepoint:syscalls:*open*'       what can be traced; with -v its arguments
  bt -l script.bt                          what the script would trace
  bt -lv 'struct task_struct'              the kernel's types

`

const usage = `bt runs scripts in bpftrace's language, as of 0.26.1.

` + calls + `  bt -check script.bt                      only what is wrong with it, if anything is
  bt -fmt script.bt                        as bpftrace --fmt formats it
  bt -d ast -e 'begin { @ = 1 + 2 }'       the tree, macros expanded
  bt -d types -e 'begin { @ = (1, "a") }'  the same with the type of each expression
  bt -d ir -e 'begin { @ = (1, "a") }'     the program that it becomes
  bt -d dis -e 'begin { @ = (1, "a") }'    its instructions
  bt -strict script.bt                     exit status 3 if anything was lost
  bt -record DIR script.bt                 keep the run, and what the script was compiled from
  bt -replay DIR                           print it again on any system, without root; "demo" is one
  bt -names                                the builtins and functions, and bpftrace's versions

A file "-" is standard input. Structs and arguments of probes are those of this machine's
kernel; with -root those of a machine whose files are in a folder, such as
sys/kernel/btf/vmlinux and sys/kernel/tracing/events. Environment variables such as
BPFTRACE_MAX_PROBES=2000 precede a script's config block. Flags may stand behind the script;
what stands behind "--" is the script's. --list, --verbose, --pid, --cmd, --output, --quiet,
--debug and --version are flags, too.

Flags:
`

// mostText is the greatest length of a script in bytes.
const mostText = 256 << 10

// options holds the flags.
type options struct {
	script, stage, root   string
	output, command       string
	file, buffering, mode string
	process, filter       string
	functions             string
	keep                  func(point string) bool
	pid, child            int
	check, format, unsafe bool
	quiet, raw, self, fp  bool
	list, verbose, dry    bool
	traceable             []byte // what is in the file functions
	names, info, version  bool
	unwarned, strict      bool
	record, replay        string
	host                  fs.FS                       // the machine's files; nil is this one's
	arch                  string                      // the machine's; "" is this one's
	open                  opener                      // opens the folders that the script is compiled from
	environ               func(string) (string, bool) // the environment
	failures              count
	stdin                 io.Reader
	stdout, stderr        *cli.Output
	name, text            string
	include, folders      list
	debug                 list
	params                []string
	values                map[string]string
}

// list is a flag that is given once for each of its values.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(s string) error {
	*l = append(*l, s)
	return nil
}

// count is how often a flag without a value is given.
type count int

func (n *count) String() string { return strconv.Itoa(int(*n)) }

func (n *count) Set(string) error {
	*n++
	return nil
}

func (n *count) IsBoolFlag() bool { return true }

// longNames are bpftrace's other names of flags.
var longNames = map[string]string{
	"list": "l", "verbose": "v", "pid": "p", "cmd": "c", "output": "o", "quiet": "q", "debug": "d", "version": "V",
	"warnings": "k",
}

// run is the command. status is the script's, if that calls exit().
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr *cli.Output) (status int, err error) {
	o := options{stdin: stdin, stdout: stdout, stderr: stderr, open: onDisk, environ: os.LookupEnv}
	fs := o.flags()
	flags, operands, rest := cli.Permute(fs, longNames, args)
	if err := cli.Parse(fs, flags, stdout); err != nil {
		return 0, o.misused(err)
	}
	if err := o.checkFlags(); err != nil {
		return 0, err
	}
	if o.file != "" {
		f, err := os.Create(o.file)
		if err != nil {
			return 0, o.failed("Failed to open output file: %w", err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		o.stdout = cli.NewOutput(f)
	}
	if o.buffering == "full" {
		o.stdout = o.stdout.Buffered()
		defer func() { err = errors.Join(err, o.stdout.Flush()) }()
	}
	switch {
	case o.version:
		return 0, o.stdout.Text("bpftrace v" + language + " (bt, " + build() + ")\n")
	case o.info:
		return 0, o.printInfo()
	case o.names:
		return 0, o.listNames()
	case o.list && o.script == "" && len(operands) < 2 && !o.isFile(operands):
		return 0, o.listAll(strings.Join(operands, ""))
	case o.replay != "":
		return o.replayed()
	}
	if err := o.read(operands, rest); err != nil {
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

// flags returns the flags, which set the options.
func (o *options) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("bt", flag.ContinueOnError)
	fs.StringVar(&o.script, "e", "", "the `SCRIPT` itself")
	fs.StringVar(&o.command, "c", "", "run this `COMMAND`, and end with it")
	fs.StringVar(&o.process, "p", "", "restrict probes to the process `PID`, and end with it")
	fs.BoolVar(&o.list, "l", false, "list the probes that match a pattern, or those of a script")
	fs.BoolVar(&o.verbose, "v", false, "with -l: their arguments, too")
	fs.BoolVar(&o.dry, "dry-run", false, "attach the script's probes, and end")
	fs.StringVar(&o.output, "f", "text", "the `FORMAT` of the output: text, json")
	fs.Var(&o.include, "include", "read the header `FILE` before the script")
	fs.Var(&o.folders, "I", "look up headers and imports in this `FOLDER`, too")
	fs.Func("debuginfo", "look up debug files in this `FOLDER`, too; several stand between colons, relative ones\n"+
		"begin at the traced program's", func(s string) error {
		o.debug = append(o.debug, strings.FieldsFunc(s, func(r rune) bool { return r == ':' })...)
		return nil
	})
	fs.StringVar(&o.file, "o", "", "print to this `FILE`")
	fs.StringVar(&o.buffering, "B", "line", "the `MODE` of writing: line, none (as printed), full (in large pieces)")
	fs.BoolVar(&o.quiet, "q", false, "do not say how many probes are attached")
	fs.BoolVar(&o.unwarned, "no-warnings", false, "do not warn: neither of what a script may not mean, nor by its warnf()")
	fs.Var(&o.failures, "k", "warn of each read of memory, lookup in a map, and update that fails in the kernel")
	fs.BoolVar(&o.strict, "strict", false, "exit with status 3 if anything was lost, cut or could not be read")
	fs.StringVar(&o.record, "record", "", "record the run in this `FOLDER`, which must be empty or not exist")
	fs.StringVar(&o.replay, "replay", "", "print the run that was recorded in this `FOLDER`, as it was printed, or as -f says;\n"+
		"demo is in the program")
	fs.StringVar(&o.filter, "probe-filter", "", "run only the probes whose names match the regular expression `RE`, and begin and end")
	fs.BoolVar(&o.raw, "raw", false, "print text of traced processes as it is, also what terminals act on")
	fs.BoolVar(&o.self, "include-self", false, "have probes fire for bt itself, too")
	fs.BoolVar(&o.fp, "frame-pointers", false, "walk user stacks by frame pointers, as bpftrace does")
	fs.BoolVar(&o.unsafe, "unsafe", false, "allow functions that change the system")
	fs.BoolVar(&o.check, "check", false, "only check the script")
	fs.BoolVar(&o.format, "fmt", false, "format the script")
	fs.BoolVar(&o.names, "names", false, "print the builtins and functions of the language, and the versions of\n"+
		"bpftrace that brought them")
	fs.BoolVar(&o.info, "info", false, "print what this kernel has, and why it lacks the rest")
	fs.StringVar(&o.mode, "mode", "run", "the `MODE` in which the script runs: run, test, bench; or format, as -fmt")
	fs.BoolFunc("test", "run only the script's test probes, and those of begin and end", o.only("test"))
	fs.BoolFunc("bench", "measure the script's bench probes", o.only("bench"))
	fs.BoolVar(&o.version, "V", false, "print the version of the language")
	fs.Bool("usdt-file-activation", true, "as always: semaphores of USDT probes are raised in all processes of a file")
	fs.StringVar(&o.stage, "d", "", "print what a `STAGE` makes: ast, types, ir, dis")
	fs.StringVar(&o.functions, "traceable-functions", "", "the `FILE` with the kernel functions that can be probed,\n"+
		"in place of tracefs's available_filter_functions")
	fs.StringVar(&o.root, "root", "", "the `FOLDER` with the files of another machine")
	fs.Usage = func() {
		io.WriteString(fs.Output(), usage)
		fs.PrintDefaults()
	}
	return fs
}

// only returns the function of a flag that is a mode.
func (o *options) only(mode string) func(string) error {
	return func(string) error {
		if o.mode != "run" && o.mode != mode {
			return errors.New("it conflicts with -mode " + o.mode)
		}
		o.mode = mode
		return nil
	}
}

// modes are those in which scripts run.
var modes = map[string]script.Mode{"run": script.ModeRun, "test": script.ModeTest, "bench": script.ModeBench}

// checkFlags reads the flags' values.
func (o *options) checkFlags() error {
	if o.mode == "format" {
		o.format, o.mode = true, "run"
	}
	_, known := modes[o.mode]
	switch {
	case !known:
		return o.failed("USAGE: --mode can only be 'run', 'test', 'bench' or 'format'")
	case o.output != "text" && o.output != "json":
		return o.failed("Invalid output format %q\nHINT: use text or json", o.output)
	case o.failures > 0 && o.unwarned:
		return o.failed("USAGE: -k, --warnings conflicts with --no-warnings")
	case o.record != "" && o.mode != "run":
		return o.failed("USAGE: -record conflicts with --mode %s", o.mode)
	case o.record != "" && o.replay != "":
		return o.failed("USAGE: -record and -replay exclude each other")
	case o.failures > 1:
		return o.failed("USAGE: -kk has been deprecated. Use a single -k for runtime warnings for errors in map lookups " +
			"and probe reads.")
	case o.buffering != "line" && o.buffering != "full" && o.buffering != "none":
		return o.failed("Invalid output buffering mode %q\nHINT: use line, full or none", o.buffering)
	}
	if err := o.setFilter(); err != nil {
		return err
	}
	if o.functions != "" {
		text, err := os.ReadFile(o.functions)
		if err != nil {
			return o.failed("Could not read functions from %s.", o.functions)
		}
		o.traceable = append([]byte{}, text...) // an empty list is one, too
	}
	if o.process == "" {
		return nil
	}
	digits := len(o.process) - len(strings.TrimLeft(o.process, "0123456789"))
	pid, err := strconv.Atoi(o.process[:digits])
	switch {
	case digits == 0:
		return o.failed("Failed to parse pid: invalid integer: %s", o.process)
	case digits < len(o.process):
		return o.failed("Failed to parse pid: invalid trailing bytes: %s", o.process)
	case err != nil || pid < 1 || pid > mostPID:
		return o.failed("Pid out of range: %s", o.process)
	}
	o.pid = pid
	return nil
}

// setFilter has only the probes that the flag names.
func (o *options) setFilter() error {
	if o.filter == "" {
		return nil
	}
	re, err := regexp.Compile(o.filter)
	if err != nil {
		return o.failed("Invalid --probe-filter regex: %w", err)
	}
	o.keep = re.MatchString
	return nil
}

// mostPID is the greatest number that a process can have (PID_MAX_LIMIT, linux/threads.h).
const mostPID = 4 << 20

// isFile reports whether the operand of -l is a script, and warns if it only looks like one.
func (o *options) isFile(operands []string) bool {
	if len(operands) == 0 {
		return false
	}
	name := operands[0]
	if st, err := os.Stat(name); name == "-" || err == nil && st.Mode().IsRegular() {
		return true
	}
	if strings.HasSuffix(name, ".bt") {
		o.stderr.Printf("WARNING: It appears that '%s' is a filename but the file does not exist. "+
			"Treating '%s' as a search pattern.\n", name, name)
	}
	return false
}

// read reads the script and its arguments: parameters, and behind "--" options as --name=value, too.
func (o *options) read(operands, rest []string) error {
	o.name, o.text = "stdin", o.script
	if o.script == "" {
		if len(operands) == 0 {
			return o.misused(errors.New("give a file, - for standard input, or -e SCRIPT"))
		}
		r := o.stdin
		if name := operands[0]; name != "-" {
			f, err := os.Open(name)
			if err != nil {
				return o.failed("failed to open file '%s': %s", name, output.Reason(err))
			}
			defer f.Close()
			r, o.name = f, name
		}
		text, err := io.ReadAll(io.LimitReader(r, mostText+1)) // Parse reports that it is too long
		if err != nil {
			return err
		}
		o.text, operands = string(text), operands[1:]
	}
	o.params = operands
	for _, a := range rest {
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

// env returns the machine whose probes are meant: this one, that of -root, or that of a recording.
func (o *options) env() *probe.Env {
	e := probe.EnvOptions{Root: o.host, Arch: o.arch, Traceable: o.traceable}
	if o.root != "" {
		e.Root = hostfs.Dir(o.root)
	}
	if len(o.debug) > 0 {
		e.DebugDirs = append(o.debug, probe.NewEnv(nil).DebugDirs()...)
	}
	return probe.NewEnv(&e)
}

// options returns the options of package script.
func (o *options) options() (*script.Options, error) {
	env := o.env()
	dir := "."
	if o.script == "" {
		dir = filepath.Dir(o.name)
	}
	machine := &system.Options{DWARF: true, PID: o.pid, Unsafe: o.unsafe, Traceable: o.traceable != nil}
	folders := append([]string{dir}, o.folders...)
	var include []string
	for _, name := range o.include {
		if filepath.IsAbs(name) {
			folders, name = append(folders, filepath.Dir(name)), filepath.Base(name)
		}
		include = append(include, filepath.Clean(name))
	}
	var dirs []script.Dir
	for i, name := range folders {
		files, err := o.open(name, "folder"+strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, script.Dir{Name: name, FS: files})
	}
	return &script.Options{
		Env: env, System: system.New(env, machine),
		Imports: dirs, Include: include, Environ: o.environ,
		Params: o.params, Values: o.values, Unsafe: o.unsafe, PID: o.pid, Child: o.child, IncludeSelf: o.self,
		Failures: o.failures > 0, FramePointers: o.fp,
		Keep: o.keep, Mode: modes[o.mode],
	}, nil
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
	case "ir", "dis":
		return o.showProgram()
	default:
		return fmt.Errorf("-d %s: unknown stage: use ast, types, ir or dis", o.stage)
	}
	opts, err := o.options()
	if err != nil {
		return err
	}
	c, err := through(o.name, o.text, opts)
	if err != nil {
		return o.refused(err)
	}
	if err := o.warn(c.Warnings); err != nil {
		return err
	}
	return o.stdout.Text(string(shown(c)))
}

// showProgram prints the program of the script, or its instructions, with the statements before them.
func (o *options) showProgram() error {
	p, err := o.compile()
	if err != nil {
		return err
	}
	if o.stage == "ir" {
		return o.stdout.Text(p.IR().String())
	}
	spec, err := bpf.Compile(p.IR(), p.Plan())
	if err != nil {
		return err
	}
	for _, prog := range p.Plan().Programs {
		if err := o.stdout.Text(fmt.Sprintln(spec.Programs[prog.Name].Instructions)); err != nil {
			return err
		}
	}
	return nil
}

// compile makes the program of the script, and prints warnings.
func (o *options) compile() (*script.Program, error) {
	opts, err := o.options()
	if err != nil {
		return nil, err
	}
	p, err := script.Compile(o.name, o.text, opts)
	if err != nil {
		return nil, o.refused(err)
	}
	return p, o.warn(p.Warnings)
}

// runOptions returns what says how the run is printed.
func (o *options) runOptions() *script.RunOptions {
	return &script.RunOptions{
		Stdout: o.stdout.Raw(), Stderr: o.stderr.Raw(), JSON: o.output == "json", Raw: o.raw, Quiet: o.quiet,
		NoWarnings: o.unwarned, Strict: o.strict,
	}
}

// live runs the script, with the command if there is one.
func (o *options) live(ctx context.Context) (status int, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r := o.runOptions()
	if o.command != "" {
		child, err := tool.StartCommand(o.command, os.Stdout) // it waits until the probes are attached
		if err != nil {
			return 0, err
		}
		o.child = child.PID
		ended := make(chan struct{})
		started := false
		r.Start = func(looked func()) error {
			started = true
			var err error
			if looked != nil {
				child.GoAfter(looked)
			} else {
				err = child.Go()
			}
			go func() {
				defer close(ended)
				defer stop()
				child.Wait()
			}()
			return err
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
	if p.Signalled() {
		signals := make(chan os.Signal, 16)
		notifyUser(signals)
		defer signal.Stop(signals)
		r.Signals = signals
	}
	if o.dry {
		r.Attached = func() error { return errDry }
	}
	if _, set := os.LookupEnv(notify); set {
		then := r.Attached
		r.Attached = func() error {
			if then == nil {
				return o.stdout.Text(notify + "\n")
			}
			return cmp.Or(o.stdout.Text(notify+"\n"), then())
		}
	}
	if o.record != "" {
		if r.Record, err = o.begin(p); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, r.Record.Close()) }()
	}
	status, err = p.Run(ctx, r)
	switch {
	case errors.Is(err, errDry):
		return 0, nil
	case errors.Is(err, script.ErrLost):
		return lostStatus, nil
	case err != nil:
		return 0, o.refused(err)
	}
	return status, nil
}

// lostStatus is the exit status of -strict if anything was lost.
const lostStatus = 3

// notify is the variable with which bpftrace prints its name when the probes are attached, for programs
// that wait for that.
const notify = "__BPFTRACE_NOTIFY_PROBES_ATTACHED"

// errDry ends a run when everything is attached.
var errDry = errors.New("dry run")

// errSaid is an error whose text is printed already, as bpftrace prints it.
var errSaid = errors.New("the error is printed")

// failed prints an error as bpftrace does.
func (o *options) failed(format string, args ...any) error {
	return cmp.Or(o.stderr.Text("ERROR: "+fmt.Errorf(format, args...).Error()+"\n"), errSaid)
}

// misused prints how bt is called, behind what is wrong with this call.
func (o *options) misused(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return cmp.Or(o.stderr.Text(calls), cli.Usage("bt", err))
}

// refused prints the errors of a script. Other errors are returned.
func (o *options) refused(err error) error {
	if errors.Is(err, script.ErrNoProbes) {
		warnings, _ := errors.AsType[syntax.Errors](err)
		return cmp.Or(o.warn(warnings), o.stderr.Text("No probes to attach\n"), errSaid)
	}
	said := script.Refusal(err)
	if said == nil {
		return err
	}
	return cmp.Or(o.stderr.Text(said.String()), errSaid)
}

// warn prints the warnings of a script.
func (o *options) warn(warnings syntax.Errors) error {
	if o.unwarned {
		return nil
	}
	return o.stderr.Text(warnings.String())
}

func nothing(*script.Checked) []byte { return nil }

func tree(c *script.Checked) []byte { return syntax.Dump(c.File) }

func typed(c *script.Checked) []byte {
	const head = "// Functions\n// Variables\n// Program\n"
	return append([]byte(head), syntax.DumpNotes(c.Types.File, func(x syntax.Expr) string {
		return c.Types.Type(x).String()
	})...)
}
