package script

import (
	"fmt"
	"maps"
	"runtime"
	"slices"

	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/internal/lower"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// Program is a compiled script. It is immutable: it may run any number of times.
type Program struct {
	// Warnings are the warnings about the script.
	Warnings syntax.Errors

	typed *types.Program
	low   *lower.Result
	plan  *probe.Plan
	env   *probe.Env
	conf  *config.Config
}

// Compile checks a script and makes programs of it, for the machine of Options.Env, which may be a
// recorded one: nothing is loaded, and no privileges are needed. The error is a [syntax.Errors] if
// the script is wrong, or uses what programs do not have yet.
func Compile(name string, text []byte, o *Options) (*Program, error) {
	if o == nil {
		o = &Options{}
	}
	c, err := read(name, text, o)
	if err != nil {
		return nil, err
	}
	if err := known(c.typed.Options(), o.Values); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	low, err := lower.Program(c.typed, &lower.Options{
		Name: programName, Arch: arch(c.env), License: c.conf.License,
		MapKeys: int(min(c.conf.MaxMapKeys, 1<<31-1)), Process: o.Process, IncludeSelf: o.IncludeSelf,
		Values: o.Values,
	})
	if err != nil {
		return nil, err
	}
	resolve := &probe.Options{Missing: missing(c.conf.MissingProbes)}
	plan, err := bpf.Resolve(c.env, low.IR, resolve)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if _, err := bpf.Compile(low.IR, plan); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Program{
		Warnings: c.warnings, typed: c.typed, low: low, plan: plan, env: c.env, conf: c.conf,
	}, nil
}

// known returns an error if a value is given for an option that the script does not have.
func known(options []types.Option, values map[string]string) error {
	var names []string
	for _, o := range options {
		names = append(names, o.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("the script has no option %q%s", name, near.Hint(name, names))
		}
	}
	return nil
}

// programName is the name of all scripts' programs: the kernel shows its beginning.
const programName = "script"

// NotYet is the end of each error for what the language has and programs do not.
const NotYet = lower.NotYet

// Load loads the program into the kernel and removes it: it tells whether the kernel takes it.
func (p *Program) Load() error {
	l, err := bpf.Load(p.low.IR, p.plan)
	if err != nil {
		return err
	}
	return l.Close()
}

// IR returns the program that the script became. It is shared: do not change it.
func (p *Program) IR() *ir.Program { return p.low.IR }

// Plan returns where the programs are attached. It is shared: do not change it.
func (p *Program) Plan() *probe.Plan { return p.plan }

func arch(e *probe.Env) string {
	if a := e.Arch(); a != "" {
		return a
	}
	return runtime.GOARCH
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
