package script

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/internal/imports"
	"github.com/borescope/borescope/probe/script/internal/library"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
	"github.com/borescope/borescope/probe/script/types"
)

// Dir is a folder in which imports are looked up.
type Dir struct {
	Name string // for errors
	FS   fs.FS
}

// Options are the options of [Read], [Check] and [Compile]. The zero value and nil are the default.
// The caller keeps what they refer to; one System must not be used by two calls at a time.
type Options struct {
	// Env is the machine that Compile makes programs for, which may be a recorded one. Nil: this
	// machine.
	Env *probe.Env
	// System is the machine that the script is checked for, such as system.New returns. If it
	// has system.System's method Expand, wildcards are replaced by their matches. Nil: for
	// Compile that of Env, for Check a machine without types of its own that has all features.
	System types.System
	// Imports are the folders in which imports are looked up, in this order. bpftrace has the
	// script's folder first.
	Imports []Dir
	// Include are headers that are read before the script, as #include "NAME" in it reads them.
	// Those that no folder of Imports has are the kernel's or the C library's, whose types and
	// constants the machine has.
	Include []string
	// Environ returns the value of an environment variable and whether it is set, as
	// os.LookupEnv does. Variables such as BPFTRACE_MAX_PROBES precede the script's config
	// block. Nil: there are no variables.
	Environ func(name string) (value string, set bool)
	// Params are the positional parameters: $1 and so on.
	Params []string
	// Values are the values of the options that the script reads with getopt(), by name. "" is
	// true.
	Values map[string]string
	// Unsafe allows functions that change the system, and kprobes by address.
	Unsafe bool
	// PID is the process that probes are restricted to, but begin, end and interval; user probes
	// need no file then. 0: none.
	PID int
	// Child is the process of the command that is traced, which the script reads as cpid; 0: none.
	Child int
	// IncludeSelf makes probes fire for the process that runs the script, too.
	IncludeSelf bool
	// Failures prints a warning with its place in the script for each read of memory, lookup of an
	// element of a map, and update that fails in the kernel. Without it they are counted.
	Failures bool
	// FramePointers walks user stacks by frame pointers, as bpftrace does, and not by call frame
	// information. A stack then ends, or leaves out callers, where code was compiled without them.
	FramePointers bool
	// Apart makes two programs of a kprobe and a kretprobe of the same functions, as kernels before 6.14
	// require. Otherwise they are one where the kernel can attach them as one.
	Apart bool
	// Budget bounds what the programs that Compile makes may cost. The kernel enforces it; what the
	// script prints are events. Session.Stats has what was left out.
	Budget ir.Budget
	// Keep says by its text which attach points are kept, after wildcards are replaced; begin and end
	// are. Nil: all.
	Keep func(point string) bool
	// Mode is which of the probes Compile makes programs of.
	Mode Mode
	// Arch is the machine, as GOARCH names it. "": that of this program.
	Arch string

	frames uint64 // of stacks whose number the script does not give; 0: as many as bpftrace has
}

// ErrNoProbes is Compile's error for a script of which nothing is left to attach: Options.Keep keeps none
// of its probes, or the machine has none of them and the script says that they may be missing.
var ErrNoProbes = errors.New("no probes to attach")

// Checked is a script that was read, and its types if it has no errors. It does not change any
// more, and holds no descriptor.
type Checked struct {
	// File is the script as far as it was read. Its macros are expanded if it has no errors;
	// that of Check has its attach points in parts then, with one point for each match of a
	// wildcard. The form of it that has types is Types.File.
	File *syntax.File
	// Config is the script's configuration, nil if its text, imports or config block have
	// errors.
	Config *config.Config
	// Types is the script with the types of its expressions and maps. It is nil if the script
	// has errors, and in the result of Read.
	Types *types.Script
	// Warnings are the warnings about a script, in the order in which they were found. Those of
	// a script with errors are in the error, too.
	Warnings syntax.Errors

	skipped int // the attach points that this machine does not have, of which they warn
}

// Read parses a script and its imports, reads its configuration, and expands its macros. name
// is the file's name for errors. The error is a [syntax.Errors], with the warnings behind the
// errors in what its String method prints; the result then has what could be read, and is never
// nil. o may be nil.
func Read(name, text string, o *Options) (*Checked, error) {
	if o == nil {
		o = &Options{}
	}
	c := &Checked{}
	return c, c.finish(c.read(name, text, o))
}

// Check reads a script as Read does, determines what its attach points and expressions are on
// the machine of the options, and checks it as bpftrace does before it runs a script. The error
// is a [syntax.Errors] as that of Read. Names may be unknown because the machine's own types
// could not be read: system.System's method Err returns that error.
func Check(name, text string, o *Options) (*Checked, error) {
	if o == nil {
		o = &Options{}
	}
	c := &Checked{}
	err := c.read(name, text, o)
	if err == nil {
		err = c.check(o)
	}
	return c, c.finish(err)
}

// has reports whether a folder has a file.
func (d Dir) has(name string) bool {
	if !fs.ValidPath(name) {
		return false
	}
	st, err := fs.Stat(d.FS, name)
	return err == nil && !st.IsDir()
}

// defined reports whether a name is defined for #ifdef: types come from BTF, not from headers.
func defined(name string) bool { return name == "BPFTRACE_HAVE_BTF" }

func (c *Checked) read(name, text string, o *Options) error {
	conditions := &syntax.Options{Defined: defined}
	f, err := syntax.Parse(name, []byte(text), conditions)
	c.File = f
	if err != nil {
		return err
	}
	dirs := make([]imports.Dir, len(o.Imports))
	for i, d := range o.Imports {
		dirs[i] = imports.Dir(d)
	}
	var headers []syntax.Decl
	for _, name := range o.Include {
		if slices.ContainsFunc(o.Imports, func(d Dir) bool { return d.has(name) }) {
			headers = append(headers, &syntax.C{Loc: f.Loc, Text: "#include " + strconv.Quote(name)})
		}
	}
	f.Decls = append(headers, f.Decls...)
	said, err := imports.Load(f, &imports.Options{Dirs: dirs, Syntax: conditions})
	c.Warnings = append(c.Warnings, said...)
	if err != nil {
		return err
	}
	conf, said, err := config.Read(f, &config.Options{Environ: o.Environ})
	c.Warnings = append(c.Warnings, said...)
	if err != nil {
		return err
	}
	c.Config = conf
	return syntax.Expand(f, &syntax.ExpandOptions{Library: library.Macros(), Builtin: types.Library})
}

func (c *Checked) check(o *Options) error {
	points := &attach.Options{
		Params: o.Params, Process: o.PID != 0, Unsafe: o.Unsafe, Arch: o.Arch,
		MayMiss: c.Config.MissingProbes != "error",
	}
	if err := attach.Parse(c.File, points); err != nil {
		return err
	}
	if err := attach.Check(c.File, points); err != nil {
		return err
	}
	if s, ok := o.System.(expander); ok {
		said, err := s.Expand(c.File, c.Config)
		c.Warnings, c.skipped = append(c.Warnings, said...), places(said)
		if err != nil {
			return err
		}
	}
	if o.Keep != nil {
		c.keep(o.Keep)
	}
	p, err := types.Check(c.File, &types.Options{
		System: o.System, Config: c.Config, Params: o.Params, Unsafe: o.Unsafe, Arch: o.Arch, Frames: o.frames,
	})
	if err != nil {
		return err
	}
	c.Types = p
	c.Warnings = append(c.Warnings, p.Warnings...)
	return nil
}

// places returns the number of places that warnings are about: a probe begins where its first attach
// point does.
func places(warnings syntax.Errors) int {
	starts := map[int32]bool{}
	for _, w := range warnings {
		starts[w.Loc.Start] = true
	}
	return len(starts)
}

// keep removes the attach points that are not kept, and probes without one.
func (c *Checked) keep(keep func(point string) bool) {
	c.File.Decls = slices.DeleteFunc(c.File.Decls, func(d syntax.Decl) bool {
		p, ok := d.(*syntax.Probe)
		if !ok {
			return false
		}
		p.Points = slices.DeleteFunc(p.Points, func(a *syntax.AttachPoint) bool {
			return a.Provider != "begin" && a.Provider != "end" && !keep(a.Text)
		})
		return len(p.Points) == 0
	})
}

func isProbe(d syntax.Decl) bool { _, ok := d.(*syntax.Probe); return ok }

// expander is a machine that knows the matches of wildcards.
type expander interface {
	Expand(*syntax.File, *config.Config) (warnings syntax.Errors, err error)
}

// finish adds the warnings of the steps before the one that failed to its error, and those in
// the error to the warnings.
func (c *Checked) finish(err error) error {
	wrong, ok := errors.AsType[syntax.Errors](err)
	if !ok {
		return err
	}
	all := append(syntax.Errors{}, c.Warnings...)
	for _, e := range wrong {
		all = append(all, e)
		if e.Severity == syntax.SeverityWarning {
			c.Warnings = append(c.Warnings, e)
		}
	}
	return all
}
