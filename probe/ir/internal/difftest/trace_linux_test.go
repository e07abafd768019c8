package difftest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/interp"
)

// tracing returns a program that writes a line.
func tracing(format string, values ...*ir.Expr) *ir.Program {
	s := &ir.Stmt{Op: ir.StmtTrace, Text: format}
	if len(values) > 0 {
		s.X = ir.NewExpr(ir.OpTuple, values...)
	}
	return &ir.Program{Name: "trace", Actions: []ir.Action{{
		Target: probe.RawTracepoint{Name: "sys_enter"}, Body: []*ir.Stmt{s},
	}}}
}

// TestTrace: what a line of the kernel's trace can have compiles for every kernel, and the interpreter
// keeps it.
func TestTrace(t *testing.T) {
	long := strings.Repeat("x", 1023)
	p := tracing(long, constOf(ir.IntType(2, true), -2), ir.NewString("text"), ir.NewBuiltin("pid"))
	for _, kernel := range []string{"5.10.0", "6.12.0"} {
		if _, err := bpf.Compile(p, rawPlan(kernel, "amd64", nil)); err != nil {
			t.Errorf("Linux %s: %v", kernel, err)
		}
	}
	m := &interp.Machine{Builtin: func(string) uint64 { return 7 }}
	interpret(t, p, rawPlan("5.10.0", "amd64", nil)).run(t, m)
	want := []interp.Traced{{Format: long, Values: [][]byte{{0xfe, 0xff}, []byte("text\x00"), {7, 0, 0, 0}}}}
	if !reflect.DeepEqual(m.Traced, want) {
		t.Errorf("the interpreter has %q", m.Traced)
	}
}

// TestWrongTraces: what the kernel would not print is refused.
func TestWrongTraces(t *testing.T) {
	one := ir.NewConst(1)
	unlicensed := tracing("x")
	unlicensed.License = "Proprietary"
	for name, p := range map[string]*ir.Program{
		"no format":   tracing(""),
		"a NUL":       tracing("a\x00b"),
		"long":        tracing(strings.Repeat("x", 1024)),
		"four values": tracing("%d %d %d %d", one, one, one, one),
		"bytes":       tracing("%s", &ir.Expr{Op: ir.OpBytes, Type: ir.BytesType(4)}),
		"licence":     unlicensed,
	} {
		if _, err := bpf.Compile(p, rawPlan("6.12.0", "amd64", nil)); err == nil {
			t.Errorf("%s: it compiles", name)
		}
	}
}
