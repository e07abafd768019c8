package difftest

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
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
