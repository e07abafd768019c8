package script

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/internal/lower"
	"github.com/borescope/borescope/probe/script/internal/printf"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
	"github.com/borescope/borescope/probe/script/types"
)

// Snippet is a probe with a filter and values, as tools take them from their users. Its parts are in one
// text, in which errors have their places.
type Snippet struct {
	// Name is how errors begin, Text what the user wrote.
	Name, Text string
	// Target is an attach point; a name alone is a kernel function. Filter is a condition, Values are
	// expressions with commas between them; either may be empty.
	Target, Filter, Values Part
	// Point, if it is not "", is the attach point that expressions are typed for instead of the target, for
	// targets that scripts do not have.
	Point string
	// Printf is set if the values are those of printf(): the first is its format.
	Printf bool
}

// Part is a part of a text, as byte offsets.
type Part struct{ Start, End int }

// Inlined is what a probe of a Snippet does, for a program of other code.
type Inlined struct {
	// Target is where the probe is attached.
	Target probe.Target
	// Body ends the action if the filter does not hold, and computes what the values need.
	Body []*ir.Stmt
	// Values are the values behind Body, and Types their types in the language.
	Values []*ir.Expr
	Types  []types.Type
	// Format is that of printf(), without its values. Verbs are its conversions, one for each value: "d", "s".
	Format string
	Verbs  []string
	// Resolve has what the values need of the plan of their program.
	Resolve probe.Options
	// Warnings are those about the snippet.
	Warnings syntax.Errors
}

// Inline checks a snippet as [Check] does a script, and returns what its probe does: one result for each
// attach point, of which a pattern may have several. Those at which the same is done are one Set. Nothing is
// attached or loaded. The error is a [syntax.Errors] with places in Snippet.Text.
//
// Expressions only compute values: they have no maps, print nothing and change nothing. What is divided by
// zero is 1, as in scripts, without a warning. The numbers of arguments of user functions count the registers
// of the function's own language; in scripts they are C's. Comparisons that ignore a sign are errors: of
// retval, as bpftrace has it without one, and of an unsigned number with what it is never below.
func Inline(s *Snippet, o *Options) ([]Inlined, error) {
	opts := Options{}
	if o != nil {
		opts = *o
	}
	if opts.Env == nil {
		opts.Env = probe.NewEnv(nil)
	}
	if opts.System == nil {
		opts.System = system.New(opts.Env, &system.Options{DWARF: true, PID: opts.PID, Unsafe: opts.Unsafe})
	}
	if opts.Arch == "" {
		opts.Arch = opts.Env.Arch()
	}
	t := newSnippetText(s)
	c, err := Check(s.Name, t.text, &opts)
	if err != nil {
		return nil, t.places(err)
	}
	if len(c.Types.Maps()) > 0 {
		return nil, t.wrong("an expression has no maps")
	}
	if err := t.unsigned(c.Types); err != nil {
		return nil, err
	}
	var warnings syntax.Errors
	if said, ok := t.places(c.Warnings).(syntax.Errors); ok {
		warnings = said
	}
	low, err := lower.Program(c.Types, &lower.Options{
		Name: programName, Arch: opts.Arch, License: c.Config.License, MaxText: c.Config.MaxStrlen,
		MostKey: mostKey(opts.Env), Process: opts.PID, IncludeSelf: opts.IncludeSelf, CgroupID: opts.cgroupID(),
		Turns: turns(opts.Env), OneWalk: before(opts.Env, 5, 17), OwnRegisters: true,
	})
	if err != nil {
		return nil, t.places(err)
	}
	var list []Inlined
	seen := map[any]bool{} // attach points may share statements
	for _, a := range low.IR.Actions {
		in := Inlined{
			Target: a.Target, Body: slices.Clone(a.Body),
			Resolve: probe.Options{DWARF: low.DWARF, PreferBTF: low.Typed}, Warnings: warnings,
		}
		if err := t.cut(&in, low.Sites); err != nil {
			return nil, err
		}
		t.position(in.Body, in.Values, seen)
		list = append(list, in)
	}
	if len(list) == 0 {
		return nil, errors.Join(ErrNoProbes, warnings.Err())
	}
	return alike(list), nil
}

// alike returns results with one Set for targets of a kind at which the same is done.
func alike(list []Inlined) (out []Inlined) {
	was := ""
	for _, in := range list {
		is := fmt.Sprintf("%T %v %v %v", in.Target, in.Body, in.Values, in.Types)
		if is != was {
			out = append(out, in)
			was = is
			continue
		}
		last := &out[len(out)-1]
		set, ok := last.Target.(probe.Set)
		if !ok {
			set = probe.Set{last.Target}
		}
		last.Target = append(set, in.Target)
	}
	return out
}

// snippetText is the script of a snippet. Each part of what the user wrote is on lines of its own, so that
// comments end.
type snippetText struct {
	*Snippet
	in    *syntax.Text // what the user wrote
	text  string
	parts []placed
}

// placed is a part of a snippet, where it begins in the script, and where what introduces it does.
type placed struct {
	Part
	at, from int
}

func newSnippetText(s *Snippet) *snippetText {
	t := &snippetText{Snippet: s, in: syntax.NewText(s.Name, s.Text)}
	kind := "kprobe:"
	if target := s.part(s.Target); target == "begin" || target == "end" || strings.Contains(target, ":") {
		kind = ""
	}
	if s.Point != "" {
		t.add(s.Point, Part{s.Target.Start, s.Target.Start}, "\n{ ")
	} else {
		t.add(kind, s.Target, "\n{ ")
	}
	if s.Filter != (Part{}) {
		t.add("if (\n", s.Filter, "\n) {} else { return; }\n")
	}
	switch {
	case strings.TrimSpace(s.part(s.Values)) == "":
	case s.Printf:
		t.add("printf(\n", s.Values, "\n);")
	default:
		t.add("print((\n", s.Values, "\n));")
	}
	t.text += " }\n"
	return t
}

func (s *Snippet) part(p Part) string { return s.Text[p.Start:p.End] }

func (t *snippetText) add(before string, p Part, behind string) {
	from := len(t.text)
	t.text += before
	t.parts = append(t.parts, placed{p, len(t.text), from})
	t.text += t.part(p) + behind
}

// back returns the place in the snippet of an offset in the script: that of what is around a part is its start
// or its end.
func (t *snippetText) back(offset int) int {
	at := 0
	for _, p := range t.parts {
		if offset >= p.from {
			at = p.Start + max(0, min(offset-p.at, p.End-p.Start))
		}
	}
	return at
}

// place returns a location in the snippet.
func (t *snippetText) place(l syntax.Loc) syntax.Loc {
	for l.From != nil && (l.In == nil || l.In.Content != t.text) {
		l = *l.From
	}
	if l.In == nil || l.In.Content != t.text {
		return syntax.Loc{}
	}
	start, end := t.back(int(l.Start)), t.back(int(l.End))
	return syntax.Loc{In: t.in, Start: int32(start), End: int32(max(start, end))}
}

// places returns the script's errors with their places in the snippet.
func (t *snippetText) places(err error) error {
	list, ok := errors.AsType[syntax.Errors](err)
	if !ok {
		return err
	}
	var out syntax.Errors
	for _, e := range list {
		moved := *e
		moved.Loc = t.place(e.Loc)
		moved.Notes = slices.Clone(e.Notes)
		for i := range moved.Notes {
			moved.Notes[i].Loc = t.place(moved.Notes[i].Loc)
		}
		out = append(out, &moved)
	}
	return out
}

// wrong returns an error about the snippet's values or, if there are none, its filter.
func (t *snippetText) wrong(msg string) error {
	p := t.parts[len(t.parts)-1]
	return syntax.Errors{{
		Loc: syntax.Loc{In: t.in, Start: int32(p.Start), End: int32(p.End)}, Msg: msg,
	}}
}

// unsigned returns an error for comparisons that are mistakes about the sign of a number: of an unsigned one
// with what it is never below, and of a returned value, of which bpftrace does not know the type: an
// error, such as -2, would be above all other numbers.
func (t *snippetText) unsigned(p *types.Script) error {
	var errs syntax.Errors
	for n := range syntax.All(p.File) {
		b, ok := n.(*syntax.Binary)
		if !ok || !slices.Contains([]string{"==", "!=", "<", ">", "<=", ">="}, b.Op) {
			continue
		}
		x, y, equal := uncast(b.X), uncast(b.Y), b.Op == "==" || b.Op == "!="
		never := b.Op == "<" || b.Op == ">="
		for _, side := range []struct {
			x, other syntax.Expr
			never    bool
		}{{x, y, never}, {y, x, !never}} {
			of := p.Type(side.x)
			if of.Kind != types.Integer || of.Signed {
				continue
			}
			number, _ := side.other.(*syntax.Integer)
			result, _ := side.x.(*syntax.Builtin)
			what := ""
			switch {
			case number != nil && (number.Negative || number.Value == 0 && side.never && !equal):
				what = "it is never below 0"
			case result != nil && result.Name == "retval" && !equal:
				what = "a negative one is above all others"
			default:
				continue
			}
			text := t.written(side.x)
			errs = append(errs, &syntax.Error{Loc: t.place(*side.x.At()), Msg: text + " is an unsigned number: " + what +
				"; (int64)" + text + ", or (int32)" + text + " of an int, is signed"})
		}
	}
	return errs.Err()
}

// written returns an expression as the user wrote it: the location of a cast is that of its type.
func (t *snippetText) written(x syntax.Expr) string {
	at := t.place(*x.At())
	text := strings.TrimSpace(at.Text())
	if c, ok := x.(*syntax.Cast); ok {
		text += t.written(uncast(c.X))
	}
	return text
}

// uncast returns an expression without the casts that the language adds.
func uncast(x syntax.Expr) syntax.Expr {
	if c, ok := x.(*syntax.Cast); ok && *c.At() == *c.X.At() {
		return uncast(c.X)
	}
	return x
}

// cut takes the emission of the values off the end of an action.
func (t *snippetText) cut(in *Inlined, sites []lower.Site) error {
	if strings.TrimSpace(t.part(t.Values)) != "" {
		last := len(in.Body) - 1
		s := in.Body[last]
		if s.Op != ir.StmtEmit {
			return t.wrong("only expressions, with commas between them, are wanted here")
		}
		site := sites[s.X.Args[0].Int]
		if site.Kind != lower.PrintValue && site.Kind != lower.Printf {
			return t.wrong("only expressions, with commas between them, are wanted here")
		}
		in.Body, in.Format = in.Body[:last], site.Format
		for _, c := range printf.Conversions(in.Format) {
			in.Verbs = append(in.Verbs, c.Spec)
		}
		in.Values, in.Types = s.X.Args[1:len(site.Args)+1], site.Args
		if x := in.Values; !t.Printf && site.Args[0].Kind == types.Tuple && x[0].Op == ir.OpTuple {
			in.Values, in.Types = x[0].Args, nil
			for _, f := range site.Args[0].Fields {
				in.Types = append(in.Types, f.Type)
			}
		}
	}
	var ok bool
	if in.Body, ok = computing(in.Body, sites); !ok {
		return t.wrong("an expression computes a value and does nothing else: bt runs scripts that do more")
	}
	return nil
}

// computing returns statements without the warnings that they emit, and whether the others only compute.
func computing(list []*ir.Stmt, sites []lower.Site) (out []*ir.Stmt, ok bool) {
	for _, s := range list {
		switch s.Op {
		case ir.StmtLet, ir.StmtReturn, ir.StmtEval, ir.StmtBreak, ir.StmtContinue:
		case ir.StmtEmit:
			if sites[s.X.Args[0].Int].Kind != lower.Warning {
				return nil, false
			}
			continue
		case ir.StmtIf, ir.StmtLoop:
			if s.Body, ok = computing(s.Body, sites); !ok {
				return nil, false
			}
			if s.Else, ok = computing(s.Else, sites); !ok {
				return nil, false
			}
		default:
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// position gives statements and values their places in the snippet.
func (t *snippetText) position(list []*ir.Stmt, values []*ir.Expr, seen map[any]bool) {
	var expr func(x *ir.Expr)
	expr = func(x *ir.Expr) {
		if x == nil || seen[x] {
			return
		}
		seen[x] = true
		x.Pos = t.pos(x.Pos)
		for _, a := range x.Args {
			expr(a)
		}
	}
	var stmts func(list []*ir.Stmt)
	stmts = func(list []*ir.Stmt) {
		for _, s := range list {
			if seen[s] {
				continue
			}
			seen[s] = true
			s.Pos = t.pos(s.Pos)
			expr(s.X)
			stmts(s.Body)
			stmts(s.Else)
		}
	}
	stmts(list)
	for _, x := range values {
		expr(x)
	}
}

// pos returns a place of the script as one of the snippet.
func (t *snippetText) pos(p ir.Pos) ir.Pos {
	if p.File != t.Name || p.Line == 0 {
		return ir.Pos{}
	}
	offset := 0
	for range p.Line - 1 {
		offset += strings.IndexByte(t.text[offset:], '\n') + 1
	}
	line, column := t.in.Position(t.back(offset + p.Col - 1))
	return ir.Pos{File: t.Name, Line: line, Col: column}
}
