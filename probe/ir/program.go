package ir

import (
	"errors"
	"strconv"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir/internal/loops"
	"github.com/borescope/borescope/stack/bpfwalk"
)

// Program is what a set of probes does when they fire. It is plain data: a
// front end builds one field by field, people use action.Program. It is not changed by
// checking, compiling or loading, and may be compiled for any number of plans, also
// concurrently.
type Program struct {
	// Name is for people and for the names of the kernel objects.
	Name string
	// License is the programs' licence as the kernel reads it; "" is DefaultLicense.
	// Under a licence that is not compatible with the GPL some builtins are refused
	// (Builtin.GPL).
	License string
	// Actions are the targets with what to do there. Index i is the plan's Group i.
	Actions []Action
	// Budget bounds what the program may cost.
	Budget Budget
	// IncludeSelf makes the probes fire for the tracing process too, which is
	// left out by default. What happens in an interrupt (a request completes, a
	// timer expires) or as one thread follows another is in the name of whatever
	// process is current, which may be this one: set it for such events.
	IncludeSelf bool
	// Loops is how counted loops are compiled: 0, but in tests of this module.
	Loops loops.Form
	// WalkLimits bound the tables of OpUstackWalk; nil is the default. They do
	// not matter to programs that don't use it.
	WalkLimits *bpfwalk.Limits
	// Maps are maps to create although no statement uses them. Maps that
	// statements use need not be listed.
	Maps []*Map

	// Errs are mistakes that were found while the program was made: who compiles it gets
	// them.
	Errs []error
}

// DefaultLicense is the licence of a program that says none.
const DefaultLicense = "Dual MIT/GPL"

// Action is what one target does.
type Action struct {
	// Target is where Body runs, statement by statement.
	Target probe.Target
	Body   []*Stmt
	// Pos is where the action is in its source, for errors.
	Pos Pos
}

// Budget bounds what a program may cost; the generated code enforces it, and
// Stats says what was left out because of it. The zero value has no bound.
type Budget struct {
	// EventsPerSecond bounds the events that are emitted, per CPU and second;
	// those beyond are not emitted and counted (Stats.Limited). 0 is no bound.
	EventsPerSecond uint32
	// CPUPercent bounds the share of each CPU that the program's own
	// instructions may take, in percent, measured in windows of 100 ms; probes
	// that fire when a window's share is used up do nothing and are counted
	// (Stats.Throttled). 0 is no bound. Measuring costs two clock readings per
	// firing.
	CPUPercent float64
	// MapBytes bounds the memory that the kernel takes for all maps and buffers
	// when they are full, but for the values of the storage kinds, which come with threads
	// and cgroups. Compile fails if one CPU needs more, Load if those that there
	// may be do. 0 is no bound.
	MapBytes int64
}

// Error is an error in a program, at the place where the program is wrong.
type Error struct {
	// Pos is the place in the source that the program was made from.
	Pos Pos
	// Where is the statement or expression, as String prints it.
	Where string
	// Err is the cause.
	Err error
}

// Error reads "file:line: where: cause", leaving out what is not known.
func (e *Error) Error() string {
	s := e.Err.Error()
	if e.Where != "" {
		s = e.Where + ": " + s
	}
	if p := e.Pos.String(); p != "" {
		s = p + ": " + s
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// String is file:line:column, leaving out what is not known.
func (p Pos) String() string {
	s := p.File
	for _, n := range []int{p.Line, p.Col} {
		if n == 0 {
			break
		}
		if s != "" {
			s += ":"
		}
		s += strconv.Itoa(n)
	}
	return s
}

// Targets are the targets of the actions, in order: what probe.Resolve wants.
func (p *Program) Targets() []probe.Target {
	ts := make([]probe.Target, len(p.Actions))
	for i, a := range p.Actions {
		ts[i] = a.Target
	}
	return ts
}

// AllMaps are the program's maps: those listed in Maps, then those that
// statements use, in order of first use.
func (p *Program) AllMaps() []*Map {
	var out []*Map
	seen := map[*Map]bool{}
	add := func(m *Map) {
		if m != nil && !seen[m] {
			seen[m] = true
			out = append(out, m)
		}
	}
	for _, m := range p.Maps {
		add(m)
	}
	p.Visit(func(s *Stmt) { add(s.Map) }, func(e *Expr) { add(e.Map) })
	return out
}

// Visit visits every statement and expression once, in program order, however often
// nodes are shared.
func (p *Program) Visit(stmt func(*Stmt), expr func(*Expr)) { visitActions(p.Actions, stmt, expr) }

func visitActions(actions []Action, stmt func(*Stmt), expr func(*Expr)) {
	seenExpr, seenStmt := map[*Expr]bool{}, map[*Stmt]bool{}
	var exprs func(e *Expr, depth int)
	exprs = func(e *Expr, depth int) {
		if e == nil || seenExpr[e] || depth > MaxDepth {
			return
		}
		seenExpr[e] = true
		for _, a := range e.Args {
			exprs(a, depth+1)
		}
		expr(e)
	}
	var stmts func(list []*Stmt, depth int)
	stmts = func(list []*Stmt, depth int) {
		for _, s := range list {
			if s == nil || seenStmt[s] || depth > MaxDepth {
				continue
			}
			seenStmt[s] = true
			stmt(s)
			exprs(s.Key, 0)
			exprs(s.X, 0)
			stmts(s.Body, depth+1)
			stmts(s.Else, depth+1)
		}
	}
	for _, a := range actions {
		stmts(a.Body, 0)
	}
}

var errNoProgram = errors.New("no program")

// Err returns what was wrong with the calls that recorded the program, joined.
// Compile returns the same.
func (p *Program) Err() error {
	if p == nil {
		return errNoProgram
	}
	return errors.Join(p.Errs...)
}
