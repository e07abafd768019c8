package script

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/internal/lower"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
	"github.com/borescope/borescope/probe/script/types"
)

// Program is a compiled script. It is immutable: it may run any number of times.
type Program struct {
	// Warnings are the warnings about the script.
	Warnings syntax.Errors

	typed    *types.Script
	low      *lower.Result
	compiled *bpf.Compiled
	plan     *probe.Plan // that of compiled
	env      *probe.Env
	conf     *config.Config
	pid      int  // to which probes are restricted, 0 if none
	child    int  // the process of a command, 0 if none
	clock    bool // a map of the script has the time of time series
	mode     Mode
	skipped  int // attach points that this machine does not have, of which Warnings warn
}

// Compile checks a script and makes programs of it, for the machine of Options.Env, which may be a
// recorded one: nothing is loaded, and no privileges are needed. The error is a [syntax.Errors] if
// the script is wrong, or uses what programs do not have yet.
func Compile(name, text string, o *Options) (*Program, error) {
	opts := Options{}
	if o != nil {
		opts = *o
	}
	p, err := compile(name, text, opts)
	for _, frames := range []uint64{60, 29} { // with some other parts of a key; two stacks
		if !keyTooLarge(err) {
			break
		}
		opts.frames = frames
		if p, err = compile(name, text, opts); err == nil {
			p.Warnings = append(p.Warnings, &syntax.Error{Severity: syntax.SeverityWarning, Msg: fmt.Sprintf("stacks have at most "+
				"%d frames: before Linux 6.1 keys of maps have at most %d bytes", frames, smallKey)})
		}
	}
	return p, err
}

// smallKey is the most bytes of a map's key before Linux 6.1: MAX_BPF_STACK (htab_map_alloc_check,
// kernel/bpf/hashtab.c).
const smallKey = 512

// keyTooLarge reports whether a kernel does not take a key for its size.
func keyTooLarge(err error) bool {
	lacks, ok := errors.AsType[*probe.UnsupportedError](err)
	return ok && strings.HasPrefix(lacks.Feature, "key of ")
}

// compile is Compile, with a number of frames.
func compile(name, text string, opts Options) (*Program, error) {
	if opts.Env == nil {
		opts.Env = probe.NewEnv(nil)
	}
	if opts.System == nil {
		opts.System = system.New(opts.Env, &system.Options{DWARF: true, PID: opts.PID, Unsafe: opts.Unsafe})
	}
	if opts.Arch == "" {
		opts.Arch = opts.Env.Arch()
	}
	c, err := Check(name, text, &opts)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(c.File.Decls, isProbe) {
		if len(c.Warnings) > 0 { // which may say why
			return nil, errors.Join(ErrNoProbes, c.Warnings)
		}
		return nil, ErrNoProbes
	}
	if err := known(c.Types.Options(), opts.Values); err != nil {
		return nil, err
	}
	clock := ""
	if opts.Environ != nil {
		clock, _ = opts.Environ(seriesTime)
	}
	o := &lower.Options{
		Name: programName, Arch: opts.Arch, License: c.Config.License,
		MapKeys: int(min(c.Config.MaxMapKeys, 1<<31-1)), MaxText: c.Config.MaxStrlen,
		MostKey: mostKey(opts.Env), Process: opts.PID,
		IncludeSelf: opts.IncludeSelf, Values: opts.Values, Child: opts.Child, Failures: opts.Failures, CgroupID: opts.cgroupID(),
		SeriesTime: clock,
		Only:       opts.Mode.provider(),
		Sessions:   !opts.Apart && sessions(opts.Env),
		Turns:      turns(opts.Env), OneWalk: before(opts.Env, 5, 17), FramePointers: opts.FramePointers,
		Ring: os.Getpagesize() * int(min(c.Config.PerfRBPages, 1<<18)),
	}
	low, compiled, err := c.build(o, &opts)
	if low != nil && len(low.Sessions) > 0 && (err != nil || !areSessions(compiled.Plan(), low.Sessions)) {
		o.Sessions = false
		low, compiled, err = c.build(o, &opts)
	}
	if err != nil && low == nil {
		return nil, err
	}
	if err != nil {
		if absent := absentSymbols(c.File, opts.Env); len(absent) > 0 {
			return nil, absent
		}
		if e := misusedPath(c.File, err); e != nil {
			return nil, syntax.Errors{e}
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Program{
		Warnings: c.Warnings, typed: c.Types, low: low, compiled: compiled, plan: compiled.Plan(),
		env: opts.Env, conf: c.Config, pid: opts.PID, child: opts.Child, clock: clock != "", mode: opts.Mode, skipped: c.skipped,
	}, nil
}

// build lowers a script and makes its programs. There is no result of lowering if that has the error.
func (c *Checked) build(o *lower.Options, opts *Options) (*lower.Result, *bpf.Compiled, error) {
	low, err := lower.Program(c.Types, o)
	if err != nil {
		return nil, nil, err
	}
	if len(low.Points) == 0 {
		return nil, nil, opts.Mode.without(c.File)
	}
	low.IR.Budget = opts.Budget
	compiled, err := bpf.Build(opts.Env, low.IR, &probe.Options{
		Missing: missing(c.Config.MissingProbes), DWARF: low.DWARF, Unsafe: opts.Unsafe, PreferBTF: low.Typed,
	})
	return low, compiled, err
}

// areSessions reports whether all programs of some targets see both the entries and the returns.
func areSessions(plan *probe.Plan, targets []int) bool {
	return !slices.ContainsFunc(plan.Programs, func(g probe.ProgramPlan) bool {
		return slices.Contains(targets, g.Group) && !g.EntryReturn()
	})
}

// cgroupID returns what finds the ids of this machine's control groups, nil for another machine.
func (o *Options) cgroupID() func(string) (uint64, error) {
	if !o.Env.Live() {
		return nil
	}
	return kernel.CgroupID
}

// known returns an error if a value is given for an option that the script does not have. That lists
// those that it has: "help" with what they are for.
func known(options []types.Option, values map[string]string) error {
	var names, given, about []string
	for _, o := range options {
		names, given = append(names, o.Name), append(given, "--"+o.Name)
		if o.About != "" {
			o.Name += ": " + o.About
		}
		about = append(about, "--"+o.Name)
	}
	hint := "expected program options: " + strings.Join(given, ", ")
	if _, help := values["help"]; help {
		hint = "expected program options:\n" + strings.Join(about, "\n")
	}
	if len(options) == 0 {
		hint = "no custom program options defined."
	}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(names, name) {
			unknown = append(unknown, "--"+name+near.Hint(name, names))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return syntax.Errors{{
		Msg: "unexpected program command line options: " + strings.Join(unknown, ", "), Hints: []string{hint},
	}}
}

// seriesTime is the variable with which bpftrace has a map of the script give the time of time series,
// for tests of them.
const seriesTime = "BPFTRACE_DUMMY_TS_MAP"

// programName is the name of all scripts' programs: the kernel shows its beginning.
const programName = "script"

// NotYet is the end of each error for what the language has and programs do not.
const NotYet = lower.NotYet

// Load loads the program into the kernel and removes it: it tells whether the kernel takes it.
func (p *Program) Load() error {
	l, err := p.compiled.Load(context.Background())
	if err != nil {
		return err
	}
	return l.Close()
}

// IR returns the program that the script became. It is shared: do not change it.
func (p *Program) IR() *ir.Program { return p.low.IR }

// Types returns the types of the script's maps. It is shared: do not change it.
func (p *Program) Types() *types.Script { return p.typed }

// Plan returns where the programs are attached. It is shared: do not change it.
func (p *Program) Plan() *probe.Plan { return p.plan }

// Probes returns what the script's probes attach to, each as probe.ParseTarget reads it, in the order
// of the script. Those that its policy of missing probes leaves out are not among them.
func (p *Program) Probes() []string {
	var list []string
	for _, g := range p.plan.Programs {
		for _, s := range g.Sites {
			name := s.Target.String()
			if g.Group < len(p.low.Points) {
				if a := p.low.Points[g.Group]; lower.Called(a) {
					name = a.Text
				} else if a.Provider == "interval" || a.Provider == "profile" {
					name = fmt.Sprintf("%s:%s:%d", a.Provider, a.Target, a.Freq) // in the script's unit
				}
			}
			list = append(list, name)
			if at, ok := s.Target.(probe.Kprobe); ok && slices.Contains(p.low.Sessions, g.Group) {
				list = append(list, probe.Kretprobe{Module: at.Module, Symbol: at.Symbol}.String())
			}
		}
	}
	return list[:len(list)-p.low.Added]
}

// mostKey returns the most bytes of a map's key.
func mostKey(e *probe.Env) int {
	if before(e, 6, 1) {
		return smallKey
	}
	return ir.MaxMemory
}

// turns returns the most turns of a loop: those of bpf_loop, or those that the verifier walks before
// Linux 5.17.
func turns(e *probe.Env) int {
	if before(e, 5, 17) {
		return 4096
	}
	return 1 << 23
}

// sessions reports whether one program may see the entries and the returns of a kernel function. Before
// Linux 6.14 a session sees no entry either if too many calls have not returned yet (two on each CPU for
// each of its functions: fprobe_init_rethook, kernel/trace/fprobe.c), so there each is probed on its own.
func sessions(e *probe.Env) bool {
	return !before(e, 6, 14) && e.Supports(feature.KprobeSession) == nil
}

func before(e *probe.Env, major, minor int) bool {
	v, ok := feature.ParseVersion(e.Release())
	return ok && !ir.Version(v).AtLeast(ir.Version{major, minor})
}

func missing(policy string) probe.MissingPolicy {
	switch policy {
	case "warn":
		return probe.MissingWarn
	case "ignore":
		return probe.MissingIgnore
	}
	return probe.MissingError
}
