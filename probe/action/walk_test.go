package action

import (
	"errors"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe"
)

// TestUstackWalkRefused: what a kernel cannot walk is an error when compiling,
// which says what to do.
func TestUstackWalkRefused(t *testing.T) {
	n := NewCounter[[64]uint64]("n", 16)
	deep := NewCounter[[512]uint64]("deep", 16)
	compile := func(kernel string, body func(c *Ctx)) error {
		p := NewProgram("refused")
		p.On(probe.RawTracepoint{Name: "sys_enter"}, body)
		_, err := Compile(p, rawPlan(kernel, "amd64"))
		return err
	}
	once := func(c *Ctx) { n.Inc(c, c.UstackWalk(64)) }
	for name, err := range map[string]error{
		"task_struct.stack": compile("5.10.0", once),
		"walk it once":      compile("5.15.0", func(c *Ctx) { once(c); once(c) }),
		"before the loop":   compile("5.15.0", func(c *Ctx) { c.Loop(3, 3, func(Int) { once(c) }) }),
		"at most 127":       compile("5.15.0", func(c *Ctx) { deep.Inc(c, c.UstackWalk(128)) }),
	} {
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want one with %q", err, name)
		}
	}
	for _, body := range []func(c *Ctx){
		once,
		func(c *Ctx) { once(c); once(c) },
		func(c *Ctx) { c.Loop(30, 30, func(Int) { once(c) }) },
		func(c *Ctx) { deep.Inc(c, c.UstackWalk(512)) },
	} {
		if err := compile("6.1.0", body); err != nil {
			t.Error(err)
		}
	}
	err := compile("6.1.0", func(c *Ctx) { c.Do(&Stmt{Op: StmtEval, X: &Expr{Op: OpUstackWalk, Int: 500, Skip: 13}}) })
	if err == nil || !strings.Contains(err.Error(), "513 frames") {
		t.Errorf("error %v, want one of 513 frames", err)
	}
	p := NewProgram("taken")
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *Ctx) {
		NewHash[uint32, uint32]("stack_rows", 1).Set(c, 1, 2)
		once(c)
	})
	if _, err := Compile(p, rawPlan("6.1.0", "amd64")); err == nil || !strings.Contains(err.Error(), "stack_rows") {
		t.Errorf("error %v, want one that names the map", err)
	}
}
