package difftest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/internal/builtin"
	"github.com/borescope/borescope/probe/ir/interp"
)

// TestBuiltins: every builtin is known to one of the checker and the generator, on all kernels
// and machines. The two that neither finds in this plan are refused by the checker.
func TestBuiltins(t *testing.T) {
	for _, b := range ir.Builtins() {
		compiled := 0
		for _, kernel := range []string{"5.10.0", "7.2.0"} {
			for _, arch := range []string{"amd64", "arm64"} {
				p := &ir.Program{Name: "builtin", IncludeSelf: true, Actions: []ir.Action{{
					Target: probe.RawTracepoint{Name: "sys_enter"},
					Body:   []*ir.Stmt{{Op: ir.StmtEval, X: ir.NewBuiltin(b.Name)}},
				}}}
				switch _, err := bpf.Compile(p, rawPlan(kernel, arch)); {
				case err == nil:
					compiled++
				case strings.Contains(err.Error(), "internal error"):
					t.Errorf("%s on %s, %s: %v", b.Name, kernel, arch, err)
				}
			}
		}
		switch b.Name {
		case "ppid", "pcomm", "compat", "session_cookie", "ip", "sp", "goid", "func": // need what this plan lacks
		default:
			if compiled == 0 {
				t.Errorf("%s: compiled nowhere", b.Name)
			}
		}
	}
}

// TestNewBuiltin: a builtin that a helper returns is one row: checker, generator and interpreter
// have no list of their own.
func TestNewBuiltin(t *testing.T) {
	last := &builtin.Rows()[len(builtin.Rows())-1]
	was := *last
	t.Cleanup(func() { *last = was })
	hits := &ir.Map{Name: "hits", Agg: ir.AggCount, Key: ir.IntType(8, false)}
	p := &ir.Program{Name: "builtin", IncludeSelf: true, Actions: []ir.Action{{
		Target: probe.RawTracepoint{Name: "sys_enter"},
		Body:   []*ir.Stmt{{Op: ir.StmtAgg, Map: hits, Key: ir.NewBuiltin("zzz")}},
	}}}
	plan := rawPlan("7.2.0", "amd64")
	if _, err := bpf.Compile(p, plan); err == nil {
		t.Error("it is known without a row")
	}
	*last = builtin.Named("numa")
	last.Name = "zzz"
	spec, err := bpf.Compile(p, plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, prog := range spec.Programs {
		if !strings.Contains(fmt.Sprint(prog.Instructions), "FnGetNumaNodeId") {
			t.Errorf("it is not read:\n%v", prog.Instructions)
		}
	}
	in, err := interp.New(p, plan, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := &interp.Machine{Builtin: func(name string) uint64 { return uint64(len(name)) }}
	if err := in.Run(m); err != nil || m.Maps[hits]["\x03\x00\x00\x00\x00\x00\x00\x00"] == nil {
		t.Errorf("interpreted, it is in %q; %v", m.Maps[hits], err)
	}
}
