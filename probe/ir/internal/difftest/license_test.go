//go:build linux

package difftest

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// TestLicence: exactly the builtins with Builtin.GPL are refused under another licence, by
// the compiler and by the kernel.
func TestLicence(t *testing.T) {
	needRoot(t)
	plan := rawPlan(runningKernel(t), runtime.GOARCH, nil)
	for _, b := range ir.Builtins() {
		switch b.Name {
		case "ppid", "pcomm", "compat", "session_cookie", "ip", "sp", "goid", "func", "probe", "cookie": // need what this plan lacks
			continue
		}
		p := &ir.Program{Name: "licence", License: "Proprietary", IncludeSelf: true, Actions: []ir.Action{{
			Target: probe.RawTracepoint{Name: "sys_enter"}, Body: []*ir.Stmt{{Op: ir.StmtEval, X: ir.NewBuiltin(b.Name)}},
		}}}
		spec, err := bpf.Compile(p, plan)
		if b.GPL {
			if err == nil || !strings.Contains(err.Error(), "GPL") {
				t.Errorf("%s: %v", b.Name, err)
			}
			continue
		}
		if errors.Is(err, errors.ErrUnsupported) {
			continue // of a later kernel
		}
		if err != nil {
			t.Errorf("%s: %v", b.Name, err)
			continue
		}
		coll, err := ebpf.NewCollection(spec)
		if err != nil {
			t.Errorf("%s: %v", b.Name, err)
			continue
		}
		coll.Close()
	}
}
