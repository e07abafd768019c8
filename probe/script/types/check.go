package types

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/internal/flow"
	"github.com/borescope/borescope/probe/script/internal/fold"
	"github.com/borescope/borescope/probe/script/internal/limit"
	"github.com/borescope/borescope/probe/script/syntax"
)

// Limits of the work that a script can cause in Check.
const (
	mostErrors = 100    // errors that are recorded, and warnings
	mostRounds = 50     // rounds, for types that depend on literals that depend on types
	mostNodes  = 25_000 // nodes of the script, with one copy of an action for each attach point
	mostAdded  = 25_000 // nodes that the passes add, for x += y and for casts
	mostSteps  = 500_000
	mostWeight = 10_000 // types that one type consists of
)

// Options are the options of [Check].
type Options struct {
	System System // nil: no types of a kernel, all features
	Unsafe bool   // allows functions that change the system
	// Params are the positional parameters.
	Params []string
	// Config is the script's configuration, as config.Read returns it. Nil: bpftrace's
	// defaults.
	Config *config.Config
	// Arch is the machine, as GOARCH names it. "": that of this program.
	Arch string
	// Frames is the number of frames of a stack for which the script gives none. 0: 127.
	Frames uint64
}

// Script is a script whose types are determined.
type Script struct {
	// File is the script in the form that is compiled: constants are folded, a probe has one
	// attach point if types depend on it, and the keys of maps and the casts that bpftrace
	// adds are explicit.
	File *syntax.File
	// Warnings are the warnings about the script, which has no errors.
	Warnings syntax.Errors

	types  *table
	scalar map[string]bool
	opts   map[string]Option
	value  func(name string) (enumerator, bool)
}

// Type returns the type of a node of File: of an expression, or of a type in the script.
func (s *Script) Type(n syntax.Node) Type { return s.types.at(n) }

// Map returns the types of the keys and values of a map, whose name begins with "@".
func (s *Script) Map(name string) (key, value Type) {
	return s.types.at(keyOf(name)), s.types.at(valueOf(name))
}

// Maps returns the names of the maps, and of the options that getopt parses, sorted.
func (s *Script) Maps() []string {
	var names []string
	for i, k := range s.types.items {
		if v, ok := k.(valueOf); ok && s.types.types[i].Kind != None {
			names = append(names, string(v))
		}
	}
	slices.Sort(names)
	return names
}

// Scalar reports whether a map has no keys. Its element has the key 0 in File.
func (s *Script) Scalar(name string) bool { return s.scalar[name] }

// Enumerator returns the value of an enumerator, for a syntax.Identifier of File. ok reports
// whether there is one.
func (s *Script) Enumerator(name string) (value uint64, ok bool) {
	e, ok := s.value(name)
	return e.value, ok
}

// Options returns the options that the script reads with getopt, by name. An option is an element
// of the map of its name in File.
func (s *Script) Options() []Option {
	var list []Option
	for _, name := range slices.Sorted(maps.Keys(s.opts)) {
		list = append(list, s.opts[name])
	}
	return list
}

// keyOf and valueOf are the keys of a map's two types.
type (
	keyOf   string
	valueOf string
)

// scoped is a variable and the node that is its scope.
type scoped struct {
	scope syntax.Node
	name  string
}

// Check determines the types of a script whose macros are expanded and whose attach points are
// parsed. It does not change the file. The error is a [syntax.Errors]. It may also contain
// warnings, which its String method prints last. It is an error if the script has more probes
// than Options.Config allows, or generates more programs.
func Check(f *syntax.File, o *Options) (*Script, error) {
	c := newChecker(o)
	if !c.fits(f) {
		return nil, c.errs
	}
	c.file = clone(f)
	for _, pass := range []func(){
		c.jumps, c.split, c.functions, c.define, c.params, c.foldLiterals, c.builtins, c.sugar,
		c.options, c.before, c.resolve,
	} {
		pass()
		if c.failed {
			return nil, c.errs
		}
	}
	c.cast()
	if c.failed {
		return nil, c.errs
	}
	c.resolveOnce()
	if !c.failed {
		c.after()
	}
	if c.failed {
		return nil, c.errs
	}
	return &Script{
		File: c.file, Warnings: c.errs, types: c.types, scalar: c.scalar, opts: c.opts, value: c.enumerator,
	}, nil
}

// checker is the state of a call of Check.
type checker struct {
	file      *syntax.File
	sys       System
	unsafe    bool
	args      []string
	maxString uint64
	arch      string
	mode      string // default mode of stacks
	frames    uint64 // default number of frames

	errs   syntax.Errors
	count  [2]int // of errs, by severity
	said   map[said]bool
	failed bool

	own      map[string]*syntax.Func
	defs     definitions
	scalar   map[string]bool        // maps, true for those without keys
	bad      map[syntax.Node]misuse // uses of maps that contradict earlier uses
	injected map[*syntax.Call]int   // number of arguments that sugar puts before the others
	opts     map[string]Option      // the options of getopt
	types    *table
	solver   *solver // of the rounds, which has types; nil before the first
	locked   map[any]Type
	members  map[btf.Type]map[string]place // of structs, by name, once they were asked for
	variants map[*btf.Enum]map[uint64]bool // the values of enums
	casts    map[integerName]*syntax.TypeOf
	steps    int
	probes   *limit.Counter
	size     int // approximate number of nodes of the script
	added    int // number of nodes that were added
}

// said is an error that was reported: it is not reported again.
type said struct {
	start, end int32
	severity   syntax.Severity
	msg        string
}

func newChecker(o *Options) *checker {
	if o == nil {
		o = &Options{}
	}
	c := &checker{
		sys: o.System, unsafe: o.Unsafe, args: o.Params, frames: cmp.Or(o.Frames, defaultFrames),
		arch: o.Arch, said: map[said]bool{},
		scalar: map[string]bool{}, bad: map[syntax.Node]misuse{},
		injected: map[*syntax.Call]int{}, opts: map[string]Option{}, locked: map[any]Type{},
		casts:   map[integerName]*syntax.TypeOf{},
		members: map[btf.Type]map[string]place{}, variants: map[*btf.Enum]map[uint64]bool{},
	}
	if c.sys == nil {
		c.sys = nothing{}
	}
	conf := o.Config
	if conf == nil {
		conf = config.Default()
	}
	c.maxString, c.mode = conf.MaxStrlen, conf.StackMode
	if c.arch == "" {
		c.arch = defaultArch
	}
	c.probes = limit.New(conf)
	return c
}

// fail adds an error at a node.
func (c *checker) fail(n syntax.Node, msg string) *syntax.Error {
	return c.say(n, syntax.SeverityError, msg)
}

func (c *checker) warn(n syntax.Node, msg string) *syntax.Error {
	return c.say(n, syntax.SeverityWarning, msg)
}

func (c *checker) say(n syntax.Node, s syntax.Severity, msg string) *syntax.Error {
	l := n.At()
	e := &syntax.Error{Loc: *l, Severity: s, Msg: msg}
	c.failed = c.failed || s == syntax.SeverityError
	key := said{l.Start, l.End, s, msg}
	if c.said[key] || c.count[s] >= mostErrors {
		return e
	}
	c.said[key] = true
	c.count[s]++
	c.errs = append(c.errs, e)
	return e
}

// full reports whether no further error is recorded. The rest of a pass that has only that as
// its result is of no use then.
func (c *checker) full() bool { return c.count[syntax.SeverityError] >= mostErrors }

// grow counts the nodes that a pass adds to the script: a new one, and those below it. It
// reports whether the limit allows them.
func (c *checker) grow(n syntax.Node) bool {
	if c.added > mostAdded {
		return false
	}
	syntax.Walk(n, func(syntax.Node) bool { c.added++; return c.added <= mostAdded })
	if c.added > mostAdded {
		c.tooMany(n)
	}
	return c.added <= mostAdded
}

func (c *checker) tooMany(n syntax.Node) {
	c.fail(n, "the operators += and the like, and the casts of tuples and records, add more than "+
		strconv.Itoa(mostAdded)+" nodes to the script: make it shorter")
}

// jumps checks the places of break, continue and return.
func (c *checker) jumps() {
	c.top(func(n syntax.Node) {
		switch n := n.(type) {
		case *syntax.Probe:
			flow.Probe(n, c.say)
		case *syntax.Func:
			flow.Func(n, c.say)
		}
	})
}

// params replaces the positional parameters.
func (c *checker) params() { c.errs = append(c.errs, syntax.SetParams(c.file, c.args)...) }

// foldLiterals replaces expressions of literals by their values.
func (c *checker) foldLiterals() {
	fold.File(c.file, func(n syntax.Node, s syntax.Severity, msg string) { c.say(n, s, msg) })
}

// top calls f for all functions and then for all probes, in bpftrace's order.
func (c *checker) top(f func(syntax.Node)) {
	for _, d := range c.file.Decls {
		if d, ok := d.(*syntax.Func); ok {
			f(d)
		}
	}
	for _, d := range c.file.Decls {
		if d, ok := d.(*syntax.Probe); ok {
			f(d)
		}
	}
}

// fits reports whether a script is within the limits, before any of it is copied: those of its
// probes, and that of the nodes, to which an action adds a copy of its own for each attach
// point on which it depends.
func (c *checker) fits(f *syntax.File) bool {
	if e := c.probes.File(f, func(*syntax.AttachPoint) bool { return false }); e != nil {
		c.errs, c.failed = append(c.errs, e), true
		return false
	}
	for _, d := range f.Decls {
		nodes := 0
		syntax.Walk(d, func(n syntax.Node) bool { nodes += becomes(n); return nodes <= 2*mostNodes })
		if p, ok := d.(*syntax.Probe); ok && speaksOfProbe(p) {
			nodes = len(p.Points) * (nodes - len(p.Points) + 1)
		}
		if c.size += nodes; c.size > mostNodes {
			c.fail(d, "the script has more than "+strconv.Itoa(mostNodes)+" nodes with this, those "+
				"of actions counted once for each attach point: make it shorter")
			return false
		}
	}
	return true
}

// becomes returns the number of nodes that a node mostly is after the passes: a map without a
// key gets one, pointers to structs are dereferenced, the operands of operators and assigned
// values are cast, and x += y reads x.
func becomes(n syntax.Node) int {
	switch n := n.(type) {
	case *syntax.Map, *syntax.Binary:
		return 3
	case *syntax.MapAccess:
		return -1 // it has a key, which was counted with its map
	case *syntax.Field:
		return 2
	case *syntax.Assign:
		if n.Op != "" {
			return 8
		}
		return 2
	}
	return 1
}

// clone copies a script, except for its attach points, which the passes do not change, and for
// probes without one, which never run and have no arguments.
func clone(f *syntax.File) *syntax.File {
	c := *f
	c.Decls = make([]syntax.Decl, 0, len(f.Decls))
	for _, d := range f.Decls {
		p, ok := d.(*syntax.Probe)
		switch {
		case !ok:
			c.Decls = append(c.Decls, syntax.Clone(d))
		case len(p.Points) > 0:
			c.Decls = append(c.Decls, cloneProbe(p, slices.Clone(p.Points)))
		}
	}
	return &c
}

// cloneProbe copies the action of a probe for attach points.
func cloneProbe(p *syntax.Probe, points []*syntax.AttachPoint) *syntax.Probe {
	bare := *p
	bare.Points = nil
	c := syntax.Clone(&bare)
	c.Points = points
	return c
}

// split makes one probe for each attach point if the action depends on it, and moves
// predicates into an if around the block.
func (c *checker) split() {
	var decls []syntax.Decl
	for _, d := range c.file.Decls {
		p, ok := d.(*syntax.Probe)
		if !ok || len(p.Points) < 2 || !speaksOfProbe(p) {
			decls = append(decls, d)
			continue
		}
		for i := range p.Points {
			decls = append(decls, cloneProbe(p, p.Points[i:i+1:i+1]))
		}
	}
	c.file.Decls = decls
	for _, d := range decls {
		if p, ok := d.(*syntax.Probe); ok && p.Pred != nil {
			cond := &syntax.If{
				Loc: betweenSlashes(*p.Pred.At()), Cond: p.Pred, Then: p.Body,
				Else: &syntax.None{Loc: *p.Pred.At()},
			}
			p.Body = &syntax.Block{
				Loc: p.Body.Loc, Stmts: []syntax.Stmt{&syntax.ExprStmt{Loc: cond.Loc, X: cond}},
				Value: &syntax.None{Loc: p.Body.Loc},
			}
			p.Pred = nil
		}
	}
}

// betweenSlashes returns the location of a predicate with the slashes around it.
func betweenSlashes(l syntax.Loc) syntax.Loc {
	if l.In == nil {
		return l
	}
	text := l.In.Content
	start, end := int(l.Start)-1, int(l.End)
	for start >= 0 && text[start] != '/' {
		start--
	}
	for end < len(text) && text[end] != '/' {
		end++
	}
	if start >= 0 && end < len(text) {
		l.Start, l.End = int32(start), int32(end)+1
	}
	return l
}

// speaksOfProbe reports whether an action has a builtin whose type or value depends on the
// attach point.
func speaksOfProbe(p *syntax.Probe) bool {
	for n := range syntax.All(p) {
		switch builtinName(limit.NameOf(n)) {
		case "args", "ctx", "func", "retval", "probe", "probetype", "usermode":
			return true
		}
	}
	return false
}
