// Package lower makes a program of package ir from a script whose types are determined. It is the
// only place that knows how bpftrace's language runs in the kernel: what it makes is data, which
// the compiler, the interpreter and the printer of programs take.
//
// What a script does outside of the kernel (printing, clearing maps, ending) is a site: a program
// emits the site's number and the values that it needs into the script's one ring, and whoever
// reads the ring does it, in the order of the records.
package lower

import (
	"slices"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// Options are the options of [Program].
type Options struct {
	// Name names the program.
	Name string
	// Sessions makes one action of a kprobe and a kretprobe of the same functions.
	Sessions bool
	// Only is "test" or "bench" if these probes are to run, with those of begin and end; else all
	// others.
	Only string
	// Arch is the machine, as GOARCH names it.
	Arch string
	// License is the programs' licence.
	License string
	// MapKeys is the number of keys that a map has room for if its declaration does not say it.
	MapKeys int
	// Turns is the most turns of a loop.
	Turns int
	// OneWalk is set if the kernel takes one walk of a user stack by call frame information in
	// each program, outside of loops; see ir.OpUstackWalk.
	OneWalk bool
	// FramePointers has no user stack walked by call frame information.
	FramePointers bool
	// Ring is the size of the ring in bytes; 0 is ir's default.
	Ring int
	// MaxText is the greatest length of a text, max_strlen.
	MaxText uint64
	// MostKey is the most bytes that the kernel takes as a key; a longer text is cut.
	MostKey int
	// Process is the process that probes are restricted to; 0 is none.
	Process int
	// Child is the command that is traced, cpid; 0 is none.
	Child int
	// IncludeSelf makes probes fire for the tracing process, too.
	IncludeSelf bool
	// Failures has reads, lookups and updates that fail in the kernel reported, each with its
	// place.
	Failures bool
	// SeriesTime is a map without keys, of unsigned numbers, that has the time of time series in
	// nanoseconds; "" is the kernel's clock.
	SeriesTime string
	// OwnRegisters makes the numbers of user functions' arguments count the registers of the function's
	// own language, without DWARF; else they are those of C.
	OwnRegisters bool
	// CgroupID returns the id of a control group. Nil: it is another machine's.
	CgroupID func(path string) (uint64, error)
	// Values are the values of getopt's options, by their names.
	Values map[string]string
}

// Result is a script as a program.
type Result struct {
	// IR is the program. Its actions are those of the attach points, in order.
	IR *ir.Program
	// Points are the attach points of the actions, without those that were added.
	Points []*syntax.AttachPoint
	// Sites are what records of Ring ask for; a record begins with the index of one.
	Sites []Site
	// Maps are the script's maps, by name.
	Maps []*Map
	// Ring is the buffer of the records, nil if there is nothing to emit.
	Ring *ir.Map
	// Packets are the buffers of packets for files.
	Packets []*Packets
	// Typed is set if the kernel must know the types of raw tracepoints' arguments.
	Typed bool
	// DWARF is set if the program reads arguments of user functions by name.
	DWARF bool
	// Announces is set if there are sites of the kind Process.
	Announces bool
	// Sessions are the indexes of the actions that are a kprobe's and a kretprobe's.
	Sessions []int
	// Added is the number of actions at the end of the program's that the script does not have.
	Added int
}

// Map is a map of the script.
type Map struct {
	Name       string // with "@"
	Key, Value types.Type
	Scalar     bool // without keys
	Wrapped    bool // the program's keys are tuples of one element, the script's key
	IR         *ir.Map
}

// Packets is a buffer of packets, of which each is written to a file without its first bytes.
type Packets struct {
	File string
	Skip int
	IR   *ir.Map
}

// SiteKind is what a site asks for.
type SiteKind uint8

// The kinds of sites, with what follows the site's number in a record.
const (
	Printf     SiteKind = iota // the arguments of printf
	PrintValue                 // a value
	PrintMap                   // nothing
	PrintEntry                 // a key of Map
	Clear                      // nothing
	Zero                       // nothing
	Time                       // nothing
	Exit                       // the exit status
	Warning                    // nothing
	JoinPart                   // the thread, a number from 0, and the text of that number
	JoinEnd                    // the thread, whose texts are complete
	Cat                        // the arguments of cat's format, which names a file
	System                     // the arguments of system's format, which is a command of the shell
	Process                    // the process whose stacks or addresses a program is about to take
	Failure                    // the error of Helper, as ir.FailureRecord has it
	Returned                   // the number that a test or a bench returns
)

// Site is a place in the script that has something done outside of the kernel.
type Site struct {
	Kind SiteKind
	Loc  syntax.Loc
	// Severity is the function of a message, warnf or errorf; printf's is "".
	Severity string
	// Format is that of printf, cat or system, without the values, or time's; of JoinEnd what
	// is between the texts; of Warning what it says.
	Format string
	// Helper is the function of the kernel that failed, as bpftrace names it.
	Helper string
	// Args are the types of the values in the record. A number that is printed as a name is an
	// integer whose Mode is the function that names it, and the Name of a Timestamp is its
	// format. Record is how the record holds them, after the site's number.
	Args   []types.Type
	Record ir.Type
	// Map, Top and Div are print's.
	Map      *Map
	Top, Div int
	// End is set if it is in an end probe.
	End bool
	// Clear is set if the map is cleared after it is printed.
	Clear bool
}

// Program makes a program of a script. The error is a [syntax.Errors]: what the language has and
// programs do not.
func Program(p *types.Script, o *Options) (*Result, error) {
	l := &lowerer{
		typed: p, o: o, maps: map[string]*Map{}, varNames: map[*ir.Var]types.Type{},
		out: &Result{IR: &ir.Program{Name: o.Name, License: o.License, IncludeSelf: o.IncludeSelf}},
	}
	if l.checkNesting(p.File); len(l.errs) > 0 {
		return nil, l.errs
	}
	if o.Failures {
		l.out.Sites = make([]Site, 1) // those of ir's operations count from 1
	}
	l.makeMaps()
	if m := l.maps[o.SeriesTime]; o.SeriesTime != "" && (m == nil || !m.Scalar || m.Value.Kind != types.Integer || m.Value.Signed) {
		return nil, syntax.Errors{{Msg: o.SeriesTime + " cannot be the time of time series: it is not a map without keys " +
			"of unsigned numbers"}}
	}
	for _, d := range p.File.Decls {
		if d, ok := d.(*syntax.Probe); ok {
			l.probe(d)
		}
	}
	if o.Sessions {
		l.pairSessions()
	}
	l.resetProcesses()
	l.ring()
	if len(l.errs) > 0 {
		return nil, l.errs
	}
	return l.out, nil
}

// lowerer is the state of a call of Program.
type lowerer struct {
	typed *types.Script
	o     *Options
	out   *Result
	maps  map[string]*Map
	// Types of maps whose keys, or values, have names of numbers.
	keyTypes, valueTypes map[string]types.Type
	mapUses              map[string]*use
	// Types of variables that have numbers in place of their names.
	varNames map[*ir.Var]types.Type
	assigned map[string]types.Type // while maps are made: those of variables, by name
	emits    []*ir.Stmt            // their events get the ring's size at the end
	errs     syntax.Errors

	fails bool    // there are sites of the kind Failure
	nodes int     // expressions and statements so far
	seen  *ir.Map // of processes, nil if none is announced

	// Of the action.
	point        *syntax.AttachPoint
	loops, walks int         // loops around the statement, and walks before it
	list         *[]*ir.Stmt // where statements go
	scope        *scope
}

// scope is a block with the variables that were declared in it.
type scope struct {
	vars    map[string]*ir.Var
	process *ir.Var // the one that was announced before the next statement
	up      *scope
}

// fail adds an error at a node.
func (l *lowerer) fail(n syntax.Node, msg string) {
	const most = 100
	if len(l.errs) < most {
		l.errs = append(l.errs, &syntax.Error{Loc: *n.At(), Msg: msg})
	}
}

// NotYet is the end of each error for what the language has and programs do not.
const NotYet = " is not supported in programs yet"

// missing adds the error for what the language has and programs do not.
func (l *lowerer) missing(n syntax.Node, what string) *ir.Expr {
	l.fail(n, what+NotYet)
	return ir.NewConst(0)
}

// probe adds the actions of a probe: one for each attach point, all with the same statements.
func (l *lowerer) probe(p *syntax.Probe) {
	points := slices.DeleteFunc(slices.Clone(p.Points), func(a *syntax.AttachPoint) bool { return !l.runs(a) })
	for _, points := range apart(points) {
		l.point, l.walks = points[0], 0
		body := l.block(func() { l.blockOf(p.Body) })
		for _, a := range points {
			target := l.target(a)
			if target == nil {
				continue
			}
			l.out.Points = append(l.out.Points, a)
			l.out.IR.Actions = append(l.out.IR.Actions, ir.Action{
				Target: target, Body: append(l.only(a), body...), Pos: pos(a.Loc),
			})
		}
	}
}

// runs reports whether an attach point's probe is to run.
func (l *lowerer) runs(a *syntax.AttachPoint) bool {
	switch a.Provider {
	case "begin", "end":
		return true
	case "test", "bench":
		return a.Provider == l.o.Only
	}
	return l.o.Only == ""
}

// apart splits the attach points of a probe into those of end and the others: they have sites of
// their own, since what an end probe prints is printed after exit(), too.
func apart(points []*syntax.AttachPoint) (groups [][]*syntax.AttachPoint) {
	var ends, others []*syntax.AttachPoint
	for _, a := range points {
		if a.Provider == "end" {
			ends = append(ends, a)
		} else {
			others = append(others, a)
		}
	}
	for _, g := range [][]*syntax.AttachPoint{others, ends} {
		if len(g) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// only returns the statements that end an action outside of the process that probes are restricted
// to, if there is one: a timer that fires on one CPU is not restricted, and user probes are attached
// in the process alone.
func (l *lowerer) only(a *syntax.AttachPoint) []*ir.Stmt {
	switch a.Provider {
	case "begin", "end", "self", "test", "bench", "interval", "iter", "uprobe", "uretprobe", "usdt", "watchpoint":
		return nil
	}
	if l.o.Process == 0 {
		return nil
	}
	other := ir.NewExpr(ir.OpNe, ir.NewBuiltin("pid"), ir.NewConst(int64(l.o.Process)))
	return []*ir.Stmt{{Op: ir.StmtIf, X: other, Body: []*ir.Stmt{{Op: ir.StmtReturn}}}}
}

// block returns the statements that f adds, in a scope of their own.
func (l *lowerer) block(f func()) []*ir.Stmt {
	outer, list := l.list, []*ir.Stmt(nil)
	l.list, l.scope = &list, &scope{vars: map[string]*ir.Var{}, up: l.scope}
	f()
	l.list, l.scope = outer, l.scope.up
	return list
}

// add adds a statement of the node.
func (l *lowerer) add(n syntax.Node, s *ir.Stmt) {
	s.Pos = pos(*n.At())
	*l.list = append(*l.list, s)
}

// castTo returns a value as one of another type.
func castTo(t ir.Type, x *ir.Expr) *ir.Expr {
	return &ir.Expr{Op: ir.OpCast, Type: t, Args: []*ir.Expr{x}}
}

// constant returns a number of a type.
func constant(t ir.Type, n int64) *ir.Expr { return &ir.Expr{Op: ir.OpConst, Type: t, Int: n} }

// let keeps a value in a variable.
func (l *lowerer) let(n syntax.Node, name string, x *ir.Expr, t ir.Type) *ir.Var {
	v := &ir.Var{Name: name, Type: t}
	l.set(n, v, x)
	return v
}

// pos returns a location as ir has it.
func pos(loc syntax.Loc) ir.Pos {
	if loc.In == nil {
		return ir.Pos{}
	}
	line, column := loc.In.Position(int(loc.Start))
	return ir.Pos{File: loc.In.Name, Line: line, Col: column}
}

// find returns a variable that is in scope, or nil.
func (l *lowerer) find(name string) *ir.Var {
	for s := l.scope; s != nil; s = s.up {
		if v := s.vars[name]; v != nil {
			return v
		}
	}
	return nil
}

// makeMaps makes the maps that the script uses.
func (l *lowerer) makeMaps() {
	l.keyTypes, l.valueTypes = l.storedTypes()
	l.mapUses = l.uses()
	declared := map[string]*syntax.MapDecl{}
	calls := map[string]*syntax.Call{}
	for _, d := range l.typed.File.Decls {
		if d, ok := d.(*syntax.MapDecl); ok {
			declared[d.Name] = d
		}
	}
	for n := range syntax.All(l.typed.File) {
		c, ok := n.(*syntax.Call)
		if !ok || len(c.Args) == 0 {
			continue
		}
		m, ok := c.Args[0].(*syntax.Map)
		if ok && aggregations[c.Name] != ir.AggNone && calls[m.Name] == nil {
			calls[m.Name] = c
		}
	}
	for _, name := range l.typed.Maps() {
		if !strings.HasPrefix(name, "@") {
			continue // an option of getopt
		}
		m := l.makeMap(name, declared[name], calls[name])
		l.maps[name] = m
		l.out.Maps = append(l.out.Maps, m)
		l.out.IR.Maps = append(l.out.IR.Maps, m.IR)
	}
}

// mostTextKey is the size from which a text is a key as the only element of a tuple, which lies in
// the programs' scratch memory: the stack has no room for it.
const mostTextKey = 256

var mapKinds = map[string]ir.MapKind{
	"": ir.MapHash, "hash": ir.MapHash, "lruhash": ir.MapLRU, "percpuhash": ir.MapPerCPUHash,
	"percpulruhash": ir.MapPerCPULRU,
}

func (l *lowerer) makeMap(name string, d *syntax.MapDecl, call *syntax.Call) *Map {
	key, value := l.typed.Map(name)
	key, value = withRecords(key), withRecords(value)
	if t, ok := l.keyTypes[name]; ok {
		key = t
	}
	if t, ok := l.valueTypes[name]; ok {
		value = t
	}
	m := &Map{Name: name, Key: key, Value: value, Scalar: l.typed.Scalar(name)}
	m.IR = &ir.Map{Name: kernelName(name), Entries: l.o.MapKeys}
	at := syntax.Node(l.typed.File)
	if d != nil {
		at = d
		m.IR.Entries, m.IR.Kind = int(min(d.Entries, 1<<31-1)), mapKinds[d.Kind]
	} else if call != nil {
		at = call
	}
	if call != nil {
		l.aggregating(m, call)
	} else {
		m.IR.Value = l.typeOf(at, value)
	}
	u := l.mapUses[name]
	if u == nil {
		u = &use{}
	}
	// What is added while an aggregation is cleared must not be lost. Programs cannot read one
	// for which that holds.
	m.IR.Flip = m.IR.Agg != ir.AggNone && u.cleared && !u.read && !u.deleted
	if m.Scalar && m.IR.Agg != ir.AggNone && !u.read && !u.deleted {
		m.IR.Entries = 0
		return m
	}
	// A value without a key is an entry as well: there is none before it is set.
	m.IR.Key = l.typeOf(at, key)
	switch {
	case m.IR.Key.Kind == ir.KindString && m.IR.Key.Size > mostTextKey:
		m.IR.Key.Size = min(m.IR.Key.Size, l.o.MostKey)
		m.Wrapped = true
	case m.IR.Key.Format == ir.FormatKstack && m.IR.Agg != ir.AggNone && (u.read || u.deleted):
		m.Wrapped = true // ir keeps plain stacks in several maps, by their lengths
	}
	if m.Wrapped {
		m.IR.Key = ir.TupleType(ir.Field{Type: m.IR.Key})
	}
	return m
}

// kernelName returns the name of a map in the kernel, which shows its beginning.
func kernelName(name string) string { return "AT_" + strings.TrimPrefix(name, "@") }

// ring makes the ring, and gives all events its size.
func (l *lowerer) ring() {
	if len(l.emits) == 0 && !l.fails {
		return
	}
	size := 8
	for _, s := range l.emits {
		size = max(size, (s.X.Type.Size+7)&^7)
	}
	// The form of no event is the ring's: so each is taken as it is.
	l.out.Ring = &ir.Map{Name: "script", Kind: ir.MapRing, Value: ir.BytesType(size), Entries: l.o.Ring}
	if l.fails {
		l.out.IR.Failures = l.out.Ring
	}
	for _, s := range l.emits {
		s.Map = l.out.Ring
		if pad := size - s.X.Type.Size; pad > 0 {
			fields := append(slices.Clone(s.X.Type.Fields), ir.Field{
				Offset: s.X.Type.Size, Type: ir.BytesType(pad),
			})
			s.X.Args = append(s.X.Args, &ir.Expr{Op: ir.OpBytes, Type: ir.BytesType(pad)})
			s.X.Type = ir.Type{Kind: ir.KindTuple, Size: size, Fields: fields}
		}
	}
}

// emit adds a site and the emission of its record.
func (l *lowerer) emit(n syntax.Node, s Site, values ...*ir.Expr) {
	s.Loc, s.End = *n.At(), l.point.Provider == "end"
	fields := []ir.Field{{Type: ir.Uint64Type()}}
	args := []*ir.Expr{constant(ir.Uint64Type(), int64(len(l.out.Sites)))}
	for i, x := range values {
		fields = append(fields, ir.Field{Type: l.typeOf(n, s.Args[i])})
		args = append(args, x)
	}
	s.Record = ir.TupleType(fields...)
	st := &ir.Stmt{Op: ir.StmtEmit, X: &ir.Expr{Op: ir.OpTuple, Type: s.Record, Args: args}}
	l.add(n, st)
	l.emits = append(l.emits, st)
	l.out.Sites = append(l.out.Sites, s)
}

// Called reports whether an attach point's program is run by whoever runs the script, while everything else
// is attached. Its target is that of begin.
func Called(a *syntax.AttachPoint) bool {
	return a.Provider == "self" || a.Provider == "test" || a.Provider == "bench"
}

// Begins reports whether a target runs before everything else is attached, or, if it is that of an
// attach point that is Called, by a call.
func Begins(t probe.Target) bool { _, ok := t.(probe.Begin); return ok }

// Ends reports whether a target runs after everything else is detached.
func Ends(t probe.Target) bool { _, ok := t.(probe.End); return ok }
