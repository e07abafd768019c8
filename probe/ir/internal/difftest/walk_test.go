package difftest

import (
	"errors"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// TestUstackWalkRefused: walks that the kernel cannot do are errors of the compiler that say
// what to do.
func TestUstackWalkRefused(t *testing.T) {
	n := action.NewCounter[[64]uint64]("n", 16)
	deep := action.NewCounter[[512]uint64]("deep", 16)
	compile := func(kernel string, body func(c *action.Ctx)) error {
		p := action.NewProgram("refused")
		p.On(probe.RawTracepoint{Name: "sys_enter"}, body)
		_, err := bpf.Compile(p.Program, rawPlan(kernel, "amd64"))
		return err
	}
	once := func(c *action.Ctx) { n.Inc(c, c.UstackWalk(64)) }
	for name, err := range map[string]error{
		"task_struct.stack": compile("5.10.0", once),
		"walk it once":      compile("5.15.0", func(c *action.Ctx) { once(c); once(c) }),
		"before the loop":   compile("5.15.0", func(c *action.Ctx) { c.Loop(3, 3, func(action.Int) { once(c) }) }),
		"at most 127":       compile("5.15.0", func(c *action.Ctx) { deep.Inc(c, c.UstackWalk(128)) }),
	} {
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want one with %q", err, name)
		}
	}
	for _, body := range []func(c *action.Ctx){
		once,
		func(c *action.Ctx) { once(c); once(c) },
		func(c *action.Ctx) { c.Loop(30, 30, func(action.Int) { once(c) }) },
		func(c *action.Ctx) { deep.Inc(c, c.UstackWalk(512)) },
	} {
		if err := compile("6.1.0", body); err != nil {
			t.Error(err)
		}
	}
	err := compile("6.1.0", func(c *action.Ctx) {
		c.Do(&ir.Stmt{Op: ir.StmtEval, X: &ir.Expr{Op: ir.OpUstackWalk, Int: 500, Skip: 13}})
	})
	if err == nil || !strings.Contains(err.Error(), "513 frames") {
		t.Errorf("error %v, want one of 513 frames", err)
	}
	p := action.NewProgram("taken")
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
		action.NewHash[uint32, uint32]("stack_rows", 1).Set(c, 1, 2)
		once(c)
	})
	if _, err := bpf.Compile(p.Program, rawPlan("6.1.0", "amd64")); err == nil || !strings.Contains(err.Error(), "stack_rows") {
		t.Errorf("error %v, want one that names the map", err)
	}
}
