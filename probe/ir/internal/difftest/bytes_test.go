package difftest

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/internal/check"
)

// TestBytesOfBuffers: perf buffers and per-CPU values are counted for every CPU, not for none
// or one.
func TestBytesOfBuffers(t *testing.T) {
	p := action.NewProgram("p")
	ev := action.NewEvents[struct{ A uint64 }]("ev", 64<<10).UsePerfBuffer()
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
		ev.Emit(c, func(*struct{ A uint64 }, *action.Bind) {})
	})
	plan := rawPlan("6.12.0", "amd64")
	lay, err := check.NewLayout(p.Program, plan)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := bpf.Compile(p.Program, plan)
	if err != nil {
		t.Fatal(err)
	}
	for cpus, budget := range map[int]int64{1: 80 << 10, 8: 600 << 10} {
		p.Budget.MapBytes = budget
		if err := check.Bytes(lay, p.Program, spec, cpus); err != nil {
			t.Error(err)
		}
		if err := check.Bytes(lay, p.Program, spec, 2*cpus); err == nil || !strings.Contains(err.Error(), "possible CPUs") {
			t.Errorf("%d CPUs have room in %d bytes: %v", 2*cpus, budget, err)
		}
	}
	hash := &ebpf.MapSpec{Type: ebpf.PerCPUHash, KeySize: 4, ValueSize: 8, MaxEntries: 1024}
	if one, many := kernel.MapBytes(hash, 1), kernel.MapBytes(hash, 64); many-one != 63*8*1024 {
		t.Errorf("%d and %d bytes", one, many)
	}
}
