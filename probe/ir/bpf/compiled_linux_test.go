package bpf

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
)

// counts returns a program that counts by a member of the task.
func counts(member string) *ir.Program {
	m := &ir.Map{Name: "hits", Agg: ir.AggCount, Key: ir.IntType(4, false)}
	field := &ir.Expr{Op: ir.OpMember, Str: member, Args: []*ir.Expr{ir.NewBuiltin("curtask")}}
	return &ir.Program{Name: "built", License: "GPL", Actions: []ir.Action{{
		Target: probe.RawTracepoint{Name: "sys_enter"},
		Body: []*ir.Stmt{{Op: ir.StmtAgg, Map: m, Key: &ir.Expr{
			Op: ir.OpCast, Type: ir.IntType(4, false), Args: []*ir.Expr{field},
		}}},
	}}}
}

// TestBuild: a program that is built is the one of Resolve and Compile, whose errors it has, and
// loads more than once.
func TestBuild(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF)
	p := counts("pid")
	c, err := Build(nil, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := Resolve(nil, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := Compile(p, plan)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range spec.Programs {
		got := c.spec.Programs[name]
		if got == nil || fmt.Sprint(got.Instructions) != fmt.Sprint(want.Instructions) {
			t.Errorf("%s is\n%v\nwant\n%v", name, got, want.Instructions)
		}
	}
	if c.Program() != p || len(c.Plan().Programs) != len(plan.Programs) {
		t.Error("it is another program")
	}
	for range 2 {
		l, err := c.Load(t.Context())
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	wrong := counts("pidd")
	var e *ir.Error
	if _, err := Build(nil, wrong, nil); !errors.As(err, &e) || !strings.Contains(err.Error(), "pid") {
		t.Errorf("for a member that is not there: %v", err)
	}
}
