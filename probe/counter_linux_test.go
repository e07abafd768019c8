package probe

import (
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// counter is a loaded plan of counting programs.
type counter struct {
	progs map[string]*ebpf.Program
	m     *ebpf.Map
}

// loadCounter loads, for every program of the plan, one that counts.
func loadCounter(t testing.TB, plan *Plan, c probetest.Counting) *counter {
	t.Helper()
	return loadCounterOn(t, plan, c, nil)
}

// loadCounterOn loads programs for targets in another BPF program.
func loadCounterOn(t testing.TB, plan *Plan, c probetest.Counting, on *ebpf.Program) *counter {
	t.Helper()
	m := probetest.NewTallies(t)
	t.Cleanup(func() { m.Close() })
	spec := c.Collection(plan, m)
	for _, p := range spec.Programs {
		p.AttachTarget = on
	}
	coll, err := LoadCollection(spec, ebpf.CollectionOptions{Cache: plan.Cache})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(coll.Close)
	return &counter{progs: coll.Programs, m: m}
}

// withFunc gives a program's first instruction a function of BTF.
func withFunc(ins asm.Instruction) asm.Instruction {
	return btf.WithFuncMetadata(ins, &btf.Func{
		Name: "entry", Linkage: btf.GlobalFunc,
		Type: &btf.FuncProto{
			Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
			Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Void{}}}},
		},
	})
}

// thisMachine is what the tests that don't ask about an Env share, as a program
// does: an emulated guest takes half a second to read the kernel's types.
var thisMachine = sync.OnceValue(func() *Env { return NewEnv(nil) })

func mustResolve(t testing.TB, o *Options, targets ...string) *Plan {
	t.Helper()
	var list []Target
	for _, s := range targets {
		list = append(list, mustParse(t, s))
	}
	plan, err := Resolve(thisMachine(), list, o)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// attachCounter resolves, loads, attaches, and checks when the test ends that
// closing leaves no link of it behind.
func attachCounter(t testing.TB, plan *Plan, c probetest.Counting) (*counter, *Link) {
	t.Helper()
	n := loadCounter(t, plan, c)
	l, err := plan.Attach(n.progs, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, plan)
	}
	ids := linkIDs(t, l)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error("second close:", err)
		}
		for _, id := range ids {
			probetest.ExpectGone(t, id)
		}
	})
	return n, l
}

// linkIDs are the ids of the kernel objects that a Link holds.
func linkIDs(t testing.TB, l *Link) []link.ID {
	t.Helper()
	var ids []link.ID
	for _, h := range l.held {
		if !h.link {
			continue
		}
		info, err := kernel.Info(h.fd)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, link.ID(info.ID))
	}
	return ids
}

func (c *counter) read(t testing.TB, i int) probetest.Tally {
	t.Helper()
	return probetest.ReadTally(t, c.m, i)
}

// missed is how many runs of the programs the kernel left out.
func (c *counter) missed(t testing.TB) (n uint64) {
	t.Helper()
	for _, p := range c.progs {
		st, err := p.Stats()
		if err != nil {
			t.Fatal(err)
		}
		n += st.RecursionMisses
	}
	return n
}
