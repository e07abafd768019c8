package ir

import (
	"errors"
	"strconv"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir/internal/loops"
	"github.com/borescope/borescope/stack/bpfwalk"
)

// LoopForm is a way to compile counted loops. All compute the same; they differ in cost and in what they need
// of the kernel. 0 is the fastest that the kernel has and whose verification is certain.
type LoopForm = loops.Form

// Program is what a set of probes does when they fire, as plain data: a front end fills in
// its fields, and programs written in Go use action.Program. Checking, compiling and loading
// do not change it. It may be compiled for any number of plans, also concurrently.
type Program struct {
	// Name names the program for readers and its kernel objects.
	Name string
	// License is the programs' licence as the kernel reads it; "" is DefaultLicense. Some
	// builtins need a licence that is compatible with the GPL (Builtin.GPL).
	License string
	// Actions are the targets, each with what happens there. Index i is Group i of the plan.
	Actions []Action
	// Budget bounds what the program may cost.
	Budget Budget
	// IncludeSelf makes the probes fire for the tracing process too, which is left out by
	// default. Set it for events in an interrupt (a request completes, a timer expires) or in
	// a switch between threads. They are attributed to whatever process is current, which may
	// be this one.
	IncludeSelf bool
	// Loops is how counted loops are compiled. It is 0 except in tests of this module.
	Loops LoopForm
	// WalkLimits bound the tables of OpUstackWalk; nil is the default. Programs without that
	// operation ignore it.
	WalkLimits *bpfwalk.Limits
	// WalkAnyone is set if the processes of OpUstackWalk are those that happen to be traced, not
	// ones that the user has chosen: files of untrusted owners share less of what reading rules
	// may cost then (stack.CFICache.Chosen).
	WalkAnyone bool
	// Maps are maps to create even if no statement uses them. Maps that statements use need
	// not be listed.
	Maps []*Map
	// Failures, if not nil, is a ring that gets a record for each operation that has a Site and
	// fails in the kernel: a read of memory, a lookup of an entry that is not there (error 0), an
	// update of a map, a path, a signal. A record is a FailureRecord, and may be among the events of
	// the program: behind the one that was being made. Without it failures are only counted
	// (bpf.Stats).
	Failures *Map

	// Errs are mistakes that were found while the program was made. Compiling the program
	// returns them.
	Errs []error
}

// FailureRecord is the form of a record in Program.Failures.
type FailureRecord struct {
	Site  uint64 // of the operation that failed
	Error int64  // what the kernel returned: a negative errno
}

// DefaultLicense is the licence of a program that declares none.
const DefaultLicense = "Dual MIT/GPL"

// Action is what one target does.
type Action struct {
	// Target is where Body runs.
	Target probe.Target
	Body   []*Stmt
	// Pos is the position of the action in its source, for errors.
	Pos Pos
}

// Budget bounds what a program may cost. The generated code enforces it, and Stats counts
// what was left out because of it. The zero value has no bound.
type Budget struct {
	// EventsPerSecond bounds the events that are emitted per CPU and second. Events beyond it
	// are dropped and counted (Stats.Limited). 0 is no bound.
	EventsPerSecond uint32
	// CPUPercent bounds the share of each CPU, in percent, that the program's own
	// instructions may take in windows of 100 ms. Probes that fire after a window's share is
	// used up do nothing and are counted (Stats.Throttled). 0 is no bound. Measuring costs
	// two clock readings per firing.
	CPUPercent float64
	// MapBytes bounds the memory in bytes that the kernel takes for all maps and buffers when
	// they are full, except the values of storage kinds, which are allocated with threads and
	// cgroups. Compile fails if one CPU needs more; Load fails if all possible CPUs do. 0 is
	// no bound.
	MapBytes int64
}

// Error is an error in a program, with the place that is wrong.
type Error struct {
	// Pos is the place in the source that the program was made from.
	Pos Pos
	// Where is the statement or expression, as String prints it.
	Where string
	// Err is the cause.
	Err error
}

// Error returns "file:line: where: cause" without the parts that are unknown.
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

// String returns file:line:column without the parts that are unknown.
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

// Targets returns the targets of the actions, in order, for probe.Resolve.
func (p *Program) Targets() []probe.Target {
	ts := make([]probe.Target, len(p.Actions))
	for i, a := range p.Actions {
		ts[i] = a.Target
	}
	return ts
}

// AllMaps returns the program's maps: those listed in Maps, then Failures, then those that
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
	add(p.Failures)
	p.Visit(func(s *Stmt) { add(s.Map) }, func(e *Expr) { add(e.Map) })
	return out
}

// Visit visits every statement and expression in program order: once, even if it is shared.
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
			exprs(s.Time, 0)
			stmts(s.Body, depth+1)
			stmts(s.Else, depth+1)
		}
	}
	for _, a := range actions {
		stmts(a.Body, 0)
	}
}

var errNoProgram = errors.New("no program")

// Err returns the mistakes in the calls that recorded the program, joined. Compile returns
// the same.
func (p *Program) Err() error {
	if p == nil {
		return errNoProgram
	}
	return errors.Join(p.Errs...)
}
