package tool

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool/cli"
)

// Tool is a command-line tracer. Declare its flags, then call Parse and Run. It is used by
// one goroutine.
type Tool struct {
	// Stderr is where -v and, on a terminal with -json, the start line are printed. New makes
	// it from os.Stderr.
	Stderr *Output
	// Options are the options for attaching. Run sets Fallback in Options.Resolve. The zero
	// value is the default.
	Options action.Options

	// NotesToStderr makes messages about the run (the start line, Run.Note, and what was
	// lost) go to Stderr, if standard output is for another program. Set it before Run.
	NotesToStderr bool
	// Demo is a recording that "-replay demo" shows; nil if there is none. Set it before
	// Parse.
	Demo fs.FS

	// Offsets adds to the names of stack frames their distance from the function's start:
	// "vfs_read+0x1c". Set it before Run.
	Offsets bool

	name, doc string
	examples  []string
	fs        *flag.FlagSet
	lines     []flagLine

	args                   []string // of Parse, as a recording keeps them
	operands               string   // the usage line's words behind the flags
	takesInterval, clears  bool
	interval, duration     time.Duration
	count, fewest, most    int
	rest                   []string
	json, verbose, noClear bool
	unsafe, requires       bool
	record, replay         string
	tasks                  []func() []int // return processes and threads that must exist
	recording              *recording.Recording
	kept                   any // of Kept

	compat  string   // what happens to calls of 32-bit processes without BTF; "" if it has none
	decoded []string // calls of 32-bit processes that OnCompat has
}

type flagLine struct{ flag, usage string }

// New returns a tool. doc is one or two lines that describe what it shows; examples are pairs
// of a command and its meaning.
func New(name, doc string, examples ...string) *Tool {
	t := &Tool{Stderr: NewOutput(os.Stderr), name: name, doc: doc, examples: examples}
	t.fs = flag.NewFlagSet(name, flag.ContinueOnError)
	t.fs.SetOutput(io.Discard)
	return t
}

// Bool declares a flag that is on or off. Like all flags it may have a second name, behind a
// comma: "T,timestamp" is -T and --timestamp.
func (t *Tool) Bool(name, usage string) *bool {
	on := new(bool)
	t.bool(on, name, usage)
	return on
}

func (t *Tool) bool(on *bool, name, usage string) {
	for _, n := range t.declare(name, "", usage) {
		t.fs.BoolVar(on, n, false, "")
	}
}

// declare adds a flag's line to the usage, and returns its names.
func (t *Tool) declare(name, value, usage string) []string {
	names := strings.Split(name, ",")
	line := "-" + strings.Join(names, ", --")
	if value != "" {
		line += " " + value
	}
	t.lines = append(t.lines, flagLine{line, usage})
	return names
}

// Int declares a flag for a number of at least 0. value is the number's name in the usage;
// def is returned if the flag is not given.
func (t *Tool) Int(name, value string, def int, usage string) *int {
	n := def
	t.Func(name, value, usage, func(s string) (err error) {
		if n, err = strconv.Atoi(s); err != nil || n < 0 {
			return fmt.Errorf("%q is not a number of at least 0", s)
		}
		return nil
	})
	return &n
}

// String declares a flag for text, "" if it is not given.
func (t *Tool) String(name, value, usage string) *string {
	text := new(string)
	for _, n := range t.declare(name, value, usage) {
		t.fs.StringVar(text, n, "", "")
	}
	return text
}

// Func declares a flag. parse is called with its value each time the flag is used.
func (t *Tool) Func(name, value, usage string, parse func(string) error) {
	for _, n := range t.declare(name, value, usage) {
		t.fs.Func(n, "", parse)
	}
}

// PID declares -p, for a process id, 0 if it is not given. Run returns an error if the
// process does not exist. See FilterPID.
func (t *Tool) PID() *int {
	pid := new(int)
	t.tasks = append(t.tasks, func() []int { return []int{*pid} })
	t.Func("p,pid", "PID", "only this process", func(s string) (err error) {
		*pid, err = parsePID(s)
		return err
	})
	return pid
}

// PIDs is PID for several processes, "-p 181,182"; nil if it is not given.
func (t *Tool) PIDs() *[]int {
	pids := new([]int)
	t.tasks = append(t.tasks, func() []int { return *pids })
	t.Func("p,pid", "PID,...", "only these processes", func(s string) error {
		*pids = nil
		for word := range strings.SplitSeq(s, ",") {
			pid, err := parsePID(word)
			if err != nil {
				return err
			}
			*pids = append(*pids, pid)
		}
		return nil
	})
	return pids
}

func parsePID(s string) (int, error) {
	pid, err := strconv.Atoi(s)
	if err != nil || pid <= 0 {
		return 0, fmt.Errorf("%q is not a process id", s)
	}
	return pid, nil
}

// chosen returns the processes and threads that flags were given.
func (t *Tool) chosen() (ids []int) {
	for _, given := range t.tasks {
		for _, id := range given() {
			if id > 0 {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// Duration declares -d: the run ends after that time, as after Ctrl-C.
func (t *Tool) Duration() { t.DurationFlag("d,duration") }

// DurationFlag is Duration with another name, for tools in which -d has another meaning.
func (t *Tool) DurationFlag(name string) {
	t.Func(name, "TIME", "end after this time: 10s, 1m, or seconds", func(s string) (err error) {
		t.duration, err = parseTime(s)
		return err
	})
}

// Interval makes the tool take [interval [count]] behind its flags, or -i interval; see
// Run.Every. def is the default interval; 0 means one result at the end.
func (t *Tool) Interval(def time.Duration) {
	t.takesInterval, t.interval = true, def
	t.Func("i,interval", "TIME", "print at this interval: 1, 5s, 100ms", func(s string) (err error) {
		t.interval, err = parseTime(s)
		return err
	})
}

// CountFlag declares a flag for the count, the number of times that Every calls its function.
func (t *Tool) CountFlag(name string) {
	t.Func(name, "N", "end after N intervals", func(s string) (err error) {
		if t.count, err = strconv.Atoi(s); err != nil || t.count <= 0 {
			err = fmt.Errorf("%q is not a number of at least 1", s)
		}
		return err
	})
}

// Redraw makes successive tables replace each other on a terminal. It declares -C, which
// turns that off.
func (t *Tool) Redraw() {
	t.clears = true
	t.bool(&t.noClear, "C,noclear", "don't clear the screen")
}

// Operands makes the tool take words behind its flags, at least fewest and at most most (-1:
// any number) of them; usage names them in the usage line. See Args. If Interval is used,
// too, words at the end that are times are the interval and count.
func (t *Tool) Operands(usage string, fewest, most int) {
	t.operands, t.fewest, t.most = usage, fewest, most
}

// Args returns the words behind the flags, without interval and count.
func (t *Tool) Args() []string { return t.rest }

// JSONFlag declares another name for -json, as some of BCC's tools have.
func (t *Tool) JSONFlag(name string) { t.bool(&t.json, name, "as -json") }

// JSON reports whether -json was given.
func (t *Tool) JSON() bool { return t.json }

// Verbose reports whether -v was given.
func (t *Tool) Verbose() bool { return t.verbose }

// Unsafe reports whether -unsafe was given: probes are then also set where an instruction may
// not begin, and files are read that another user's process may serve (symbol.Options.Served).
func (t *Tool) Unsafe() bool { return t.unsafe }

// Replaying reports whether -replay was given.
func (t *Tool) Replaying() bool { return t.recording != nil }

// Attaches reports whether the run attaches probes: neither -replay nor -requires was given.
func (t *Tool) Attaches() bool { return !t.Replaying() && !t.requires }

// Kept makes plain data of the tool's a part of its recordings, for what depends on the machine, such as the
// types of arguments. v is a pointer to a value that encoding/json takes; it is recorded as it is at the end
// of the run. At replay Kept sets it to what was recorded.
func (t *Tool) Kept(v any) error {
	t.kept = v
	if !t.Replaying() {
		return nil
	}
	var r recorded
	err := json.Unmarshal(t.recording.Meta().Data, &r)
	switch {
	case err == nil && r.Kept == nil:
		err = errors.New("it lacks what the machine said about its expressions: record it again")
	case err == nil:
		err = json.Unmarshal(r.Kept, v)
	}
	if err != nil {
		return fmt.Errorf("-replay %s: not a complete recording: %w", t.replay, err)
	}
	return nil
}

// Usagef returns an error for a mistake on the command line that the tool finds. Main returns
// status 2 for it.
func (t *Tool) Usagef(format string, args ...any) error {
	return cli.Usage(t.name, fmt.Errorf(format, args...))
}

// Parse parses the command line. With -h it prints the usage to stdout and returns
// flag.ErrHelp. For a mistake it returns an error like Usagef's. With -replay the recorded
// run's flags apply unless args override them, because what was recorded depends on them.
func (t *Tool) Parse(args []string, stdout *Output) error {
	for _, c := range []struct {
		to          any
		name, usage string
	}{
		{&t.json, "json", "one JSON object per line"},
		{&t.record, "record DIR", "also record the input of the result in DIR"},
		{&t.replay, "replay DIR", "show a recording instead; needs no root"},
		{&t.verbose, "v", "print how the probes are attached"},
		{&t.requires, "requires", "print the privileges that the run needs, and end"},
		{&t.unsafe, "unsafe", "probe within instructions, read others' FUSE"},
	} {
		t.lines = append(t.lines, flagLine{"-" + c.name, c.usage})
		name, _, _ := strings.Cut(c.name, " ")
		switch to := c.to.(type) {
		case *bool:
			t.fs.BoolVar(to, name, false, "")
		case *string:
			t.fs.StringVar(to, name, "", "")
		}
	}
	args = cli.Letters(t.fs, args)
	err := t.fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return errors.Join(err, stdout.Text(t.usage()))
	case err != nil:
		return cli.Usage(t.name, err)
	case t.record != "" && t.replay != "":
		return t.Usagef("-record and -replay exclude each other")
	case t.replay != "":
		return t.parseRecorded(args)
	}
	t.args = forReplay(args)
	return t.parseRest(t.fs.Args())
}

// forReplay returns a command line as a recording keeps it: without the flags for the run's
// files and output.
func forReplay(args []string) (out []string) {
	for i := 0; i < len(args); i++ {
		name := strings.TrimLeft(args[i], "-")
		if args[i] == "--" {
			return append(out, args[i:]...)
		}
		isFlag := len(name) < len(args[i])
		switch {
		case isFlag && name == "record":
			i++
		case isFlag && (strings.HasPrefix(name, "record=") || name == "json" || name == "v"):
		default:
			out = append(out, args[i])
		}
	}
	return out
}

// parseRecorded opens the recording, and parses the command line of the recorded run before
// this run's.
func (t *Tool) parseRecorded(args []string) (err error) {
	from := procfs.DirFS(t.replay)
	if t.replay == "demo" && t.Demo != nil {
		from = t.Demo
	}
	if t.recording, err = recording.Open(from); err != nil {
		return fmt.Errorf("-replay %s: %w", t.replay, err)
	}
	m := t.recording.Meta()
	if m.Tool != t.name {
		return errors.Join(fmt.Errorf("-replay %s: a recording of %s", t.replay, m.Tool),
			t.recording.Close())
	}
	if err := t.fs.Parse(m.Args); err != nil {
		return errors.Join(fmt.Errorf("-replay %s: recorded flags: %w", t.replay, err),
			t.recording.Close())
	}
	rest := t.fs.Args()
	if err := t.fs.Parse(args); err != nil {
		return cli.Usage(t.name, err)
	}
	if t.fs.NArg() > 0 {
		rest = t.fs.Args()
	}
	t.record = ""
	return t.parseRest(rest)
}

// parseRest parses the words behind the flags.
func (t *Tool) parseRest(rest []string) error {
	t.rest = slices.Clone(rest)
	if t.takesInterval {
		if err := t.parseInterval(); err != nil {
			return err
		}
	}
	switch n := len(t.rest); {
	case n < t.fewest:
		return t.Usagef("%s is missing", t.operands)
	case t.most >= 0 && n > t.most:
		return t.Usagef("unexpected argument %q", t.rest[t.most])
	}
	return nil
}

// parseInterval takes the interval and the count from the end of the words.
func (t *Tool) parseInterval() error {
	if last := t.most + 2; t.most >= 0 && len(t.rest) > last {
		return t.Usagef("unexpected argument %q", t.rest[last])
	}
	words := 0
	for words < 2 && len(t.rest)-words > t.fewest && isTime(t.rest[len(t.rest)-words-1]) {
		words++
	}
	given := t.rest[len(t.rest)-words:]
	t.rest = t.rest[:len(t.rest)-words]
	if words > 0 {
		var err error
		if t.interval, err = parseTime(given[0]); err != nil {
			return t.Usagef("interval %s: %w", given[0], err)
		}
	}
	if words > 1 {
		n, err := strconv.Atoi(given[1])
		if err != nil || n <= 0 {
			return t.Usagef("count %s: not a number of at least 1", given[1])
		}
		t.count = n
	}
	return nil
}

func isTime(s string) bool { return s != "" && (s[0] >= '0' && s[0] <= '9' || s[0] == '-') }

func parseTime(s string) (d time.Duration, err error) {
	if n, ferr := strconv.ParseFloat(s, 64); ferr == nil {
		d = time.Duration(n * float64(time.Second))
	} else if d, err = time.ParseDuration(s); err != nil {
		return 0, fmt.Errorf("%q is not a time", s)
	}
	if d <= 0 {
		return 0, fmt.Errorf("%q is not a positive time", s)
	}
	return d, nil
}

// usage returns the text that -h prints.
func (t *Tool) usage() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s [flags]", t.name)
	if t.operands != "" {
		b.WriteString(" " + t.operands)
	}
	if t.takesInterval {
		b.WriteString(" [interval [count]]")
	}
	fmt.Fprintf(&b, "\n%s\n\n", t.doc)
	width := 0
	for _, l := range t.lines {
		width = max(width, len(l.flag))
	}
	for _, l := range t.lines {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, l.flag, l.usage)
	}
	b.WriteString("\nExamples:\n")
	width = 0
	for i := 0; i+1 < len(t.examples); i += 2 {
		width = max(width, len(t.examples[i]))
	}
	for i := 0; i+1 < len(t.examples); i += 2 {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, t.examples[i], t.examples[i+1])
	}
	return b.String()
}

// Env describes the machine that the tool runs on, for decisions that depend on it. See
// Symbol.
func (t *Tool) Env() *probe.Env {
	if t.Options.Env == nil {
		t.Options.Env = probe.NewEnv(nil)
	}
	return t.Options.Env
}

// Symbol returns the first of names that is a function of this kernel, since kernel versions
// rename functions. If there is none, and at replay, it returns the first name.
func (t *Tool) Symbol(names ...string) string {
	if t.Replaying() {
		return names[0]
	}
	for _, name := range names {
		if syms, err := t.Env().KernelSymbols("", name); err == nil && len(syms) > 0 {
			return name
		}
	}
	return names[0]
}

// Tracepoint is Symbol for tracepoints of a group.
func (t *Tool) Tracepoint(group string, names ...string) probe.Tracepoint {
	if !t.Replaying() {
		for _, name := range names {
			if _, err := t.Env().Tracepoint(group, name); err == nil {
				return probe.Tracepoint{Group: group, Name: name}
			}
		}
	}
	return probe.Tracepoint{Group: group, Name: names[0]}
}

// Tracepoints returns tracepoints of a group as a target that shares one action.
func Tracepoints(group string, names ...string) probe.Set {
	set := make(probe.Set, len(names))
	for i, name := range names {
		set[i] = probe.Tracepoint{Group: group, Name: name}
	}
	return set
}
