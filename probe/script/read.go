package script

import (
	"os"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/library"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
	"github.com/borescope/borescope/probe/script/system"
	"github.com/borescope/borescope/probe/script/types"
)

// Options are the options of Compile. The zero value and nil are the defaults.
type Options struct {
	// Env is the machine that the script is for; nil is this machine.
	Env *probe.Env
	// Params are the positional parameters, $1 and so on.
	Params []string
	// Values are the values of the options that the script reads with getopt(), by name.
	Values map[string]string
	// Unsafe allows functions that change the system.
	Unsafe bool
	// Process restricts user probes to a process; 0 is none.
	Process int
	// IncludeSelf makes probes fire for the process that runs the script, too.
	IncludeSelf bool
}

type checked struct {
	typed    *types.Program
	conf     *config.Config
	env      *probe.Env
	warnings syntax.Errors
}

func read(name string, text []byte, o *Options) (*checked, error) {
	f, err := syntax.Parse(name, text, nil)
	if err != nil {
		return nil, err
	}
	c, said, err := config.Read(f, &config.Options{Environ: os.LookupEnv})
	if err != nil {
		return nil, err
	}
	err = syntax.Expand(f, &syntax.ExpandOptions{Library: library.Macros(), Builtin: types.Library})
	if err != nil {
		return nil, err
	}
	points := &attach.Options{
		Params: o.Params, Unsafe: o.Unsafe, MayMiss: c.MissingProbes != "error", Process: o.Process != 0,
	}
	if err := attach.Parse(f, points); err != nil {
		return nil, err
	}
	if err := attach.Check(f, points); err != nil {
		return nil, err
	}
	env := o.Env
	if env == nil {
		env = probe.NewEnv(nil)
	}
	sys := system.New(env, nil)
	if err := sys.Expand(f, c); err != nil {
		return nil, err
	}
	p, err := types.Check(f, &types.Options{
		System: sys, Config: c, Params: o.Params, Unsafe: o.Unsafe,
	})
	if err != nil {
		return nil, err
	}
	return &checked{p, c, env, append(said, p.Warnings...)}, nil
}
