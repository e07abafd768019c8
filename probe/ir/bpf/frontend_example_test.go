package bpf_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// toy is a front end for a language of three statements. Words are builtins (comm,
// pid, kstack), arguments (arg0) or numbers:
//
//	on uprobe:/bin/bash:readline
//	count calls by comm
//	hist  sizes arg1
//	emit  pid arg0
type toy struct {
	program *ir.Program
	events  *ir.Map
	// types set the types of the maps, which are known only once there is a plan.
	types []func(*probe.Plan) error
}

// parseToy makes a program from a script, except for the types of its keys and events.
func parseToy(script string) (*toy, error) {
	t := &toy{program: &ir.Program{Name: "toy"}}
	for i, line := range strings.Split(script, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := t.statement(ir.Pos{File: "script", Line: i + 1}, words); err != nil {
			return nil, fmt.Errorf("script:%d: %w", i+1, err)
		}
	}
	return t, nil
}

func (t *toy) statement(pos ir.Pos, words []string) error {
	if words[0] == "on" {
		target, err := probe.ParseTarget(strings.Join(words[1:], " "))
		t.program.Actions = append(t.program.Actions, ir.Action{Target: target, Pos: pos})
		return err
	}
	if len(t.program.Actions) == 0 || len(words) < 2 {
		return errors.New("want on TARGET, and then count NAME, hist NAME VALUE or emit VALUE")
	}
	group := len(t.program.Actions) - 1
	s := &ir.Stmt{Pos: pos}
	values, keys := split(words[1:])
	switch words[0] {
	case "emit":
		s.Op, s.Map, s.X = ir.StmtEmit, &ir.Map{Name: "events", Kind: ir.MapRing, Pos: pos}, tuple(words[1:], pos)
		t.events = s.Map
		t.declare(&s.Map.Value, s.X, group)
	case "count", "hist":
		s.Op, s.Map = ir.StmtAgg, &ir.Map{Name: words[1], Agg: ir.AggCount, Pos: pos}
		if words[0] == "hist" {
			if len(values) < 2 {
				return errors.New("hist of what?")
			}
			s.Map.Agg, s.X = ir.AggHist, expression(values[1], pos)
		}
		if len(keys) > 0 {
			s.Key = tuple(keys, pos)
			t.declare(&s.Map.Key, s.Key, group)
		}
	default:
		return fmt.Errorf("no statement %q", words[0])
	}
	action := &t.program.Actions[group]
	action.Body = append(action.Body, s)
	return nil
}

// split cuts "NAME VALUE by KEY KEY" at the word by.
func split(words []string) (values, keys []string) {
	if i := slices.Index(words, "by"); i >= 0 {
		return words[:i], words[i+1:]
	}
	return words, nil
}

// declare arranges for a map's type to be set to that of an expression, once the program has
// a plan.
func (t *toy) declare(typ *ir.Type, e *ir.Expr, group int) {
	t.types = append(t.types, func(plan *probe.Plan) error {
		i := slices.IndexFunc(plan.Programs, func(p probe.ProgramPlan) bool { return p.Group == group })
		if i < 0 {
			return fmt.Errorf("nothing is attached to %s", t.program.Actions[group].Target)
		}
		have, err := bpf.TypeOf(e, plan, i)
		*typ = have
		return err
	})
}

// finish sets the types of maps to those that their keys and events have in the plan.
func (t *toy) finish(plan *probe.Plan) error {
	for _, declare := range t.types {
		if err := declare(plan); err != nil {
			return err
		}
	}
	return nil
}

func tuple(words []string, pos ir.Pos) *ir.Expr {
	e := &ir.Expr{Op: ir.OpTuple, Pos: pos}
	for _, w := range words {
		e.Args = append(e.Args, expression(w, pos))
	}
	return e
}

func expression(word string, pos ir.Pos) *ir.Expr {
	if n, err := strconv.ParseInt(word, 0, 64); err == nil {
		return &ir.Expr{Op: ir.OpConst, Int: n, Pos: pos}
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(word, "arg")); err == nil {
		return &ir.Expr{Op: ir.OpArg, Int: int64(n), Pos: pos}
	}
	return &ir.Expr{Op: ir.OpBuiltin, Str: word, Pos: pos} // or an error with the position
}

// report prints the contents of the program's maps, and n events, of a loaded program or, the
// same way, of a recording.
func (t *toy) report(w io.Writer, h bpf.Reader, n int) error {
	for _, m := range t.program.AllMaps() {
		if m == t.events {
			continue
		}
		table, err := bpf.OpenTable(h, m)
		if err != nil {
			return err
		}
		entries, err := table.Snapshot()
		if err != nil {
			return err
		}
		for _, e := range entries.Entries {
			fmt.Fprintf(w, "%s %v: %v\n", m.Name, e.Key, e.Value)
		}
	}
	if t.events == nil {
		return nil
	}
	stream, err := bpf.OpenStream(h, t.events, 0)
	if err != nil {
		return err
	}
	defer stream.Close()
	events, err := mapx.NewEvents[string](stream)
	for raw := ""; n > 0 && err == nil; n-- {
		if err = events.Next(context.Background(), &raw); err == nil {
			fmt.Fprintln(w, bpf.Value{Type: t.events.Value, Raw: raw})
		}
	}
	return err
}

// A front end of one page parses a script, determines the types that its expressions have at
// the probe, and reads maps and events by their declarations. This one reads a recording, so
// it needs neither a kernel nor privileges. On a live machine, bpf.Resolve makes the plan,
// bpf.Load returns the handles, and Plan.Attach attaches the probes.
func Example_frontEnd() {
	t, err := parseToy(toyScript("/usr/lib/libexample.so"))
	if err != nil {
		fmt.Println(err)
		return
	}
	number := probe.Arg{Loc: probe.Location{Kind: probe.LocationReg, Reg: 5}} // rdi, as DWARF counts
	plan := &probe.Plan{Arch: "amd64", Kernel: "6.12.0", Programs: []probe.ProgramPlan{{
		Name: "add", Type: ebpf.Kprobe, Context: probe.ContextPtRegs, UserRegs: true, Args: []probe.Arg{number, number},
	}}}
	if err := t.finish(plan); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(t.program)
	recorded, err := recording.Open(os.DirFS("testdata/toy"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer recorded.Close()
	h, err := bpf.Open(t.program, recorded)
	if err == nil {
		err = t.report(os.Stdout, h, 3)
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// program toy license "Dual MIT/GPL"
	// map calls hash[(str[16], u64)] count
	// map firsts hash hist(0)
	// map events ring (u64, str[16])
	// uprobe:/usr/lib/libexample.so:add {
	// 	@calls[(comm, arg1)] = count()
	// 	@firsts = hist(arg0)
	// 	emit @events (arg0, comm)
	// }
	// calls (target, 1000): 23
	// firsts : [{0 1 1} {1 2 1} {2 4 2} {4 8 4} {8 16 8} {16 32 7}]
	// (0, target)
	// (1, target)
	// (2, target)
}

// toyScript is a script for the function add of a file.
func toyScript(path string) string {
	return "on uprobe:" + path + `:add
		count calls by comm arg1
		hist firsts arg0
		emit arg0 comm`
}
