//go:build linux

package action

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
)

// TestLicence: what GPLOnly lists, and nothing else, is refused under another
// licence, by the compiler as by the kernel.
func TestLicence(t *testing.T) {
	needRoot(t)
	plan := rawPlan(runningKernel(t), runtime.GOARCH, nil)
	gpl := GPLOnly()
	for _, b := range Builtins() {
		switch b.Name {
		case "ppid", "pcomm", "session_cookie", "ip", "sp", "goid", "func", "probe", "cookie": // need what this plan has not
			continue
		}
		p := &Program{Name: "licence", License: "Proprietary", IncludeSelf: true, Actions: []Action{{
			Target: probe.RawTracepoint{Name: "sys_enter"}, Body: []*Stmt{{Op: StmtEval, X: NewBuiltin(b.Name)}},
		}}}
		spec, err := Compile(p, plan)
		if slices.Contains(gpl, b.Name) {
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
