package probetest

import (
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
)

// Tally is what a counting program counted at one site.
type Tally struct{ Count, Sum uint64 }

// LeftOut reports whether t has fewer events than want, and whether the missed ones, which the
// kernel counted, explain the difference.
func (t Tally) LeftOut(want Tally, missed uint64) bool {
	return t.Count < want.Count && t.Count+missed >= want.Count
}

// Counting configures counting programs.
type Counting struct {
	// PID counts events of this process only.
	PID int
	// Value is the offset in the context of a u64 to sum up; -1 for none.
	Value int16
	// Equal, if not 0, limits counting to events that have this value in the u64 at offset
	// Filter.
	Filter int16
	Equal  int32
	// Sites counts by site, through the cookie.
	Sites bool
	// Key is the key at which events are counted if Sites is false.
	Key int32
	// Helper, if not 0, reads the value with bpf_get_func_arg, for the argument with the
	// number Value, or with bpf_get_func_ret.
	Helper asm.BuiltinFunc
}

// Instructions returns a program of type typ that counts in m or, if m is nil, in the
// collection's map "hits".
func (c Counting) Instructions(typ ebpf.ProgramType, m *ebpf.Map) asm.Instructions {
	ins := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Imm(asm.R7, 0)}
	if c.PID != 0 {
		ins = append(ins,
			asm.FnGetCurrentPidTgid.Call(),
			asm.RSh.Imm(asm.R0, 32),
			asm.JNE.Imm(asm.R0, int32(c.PID), "exit"))
	}
	if c.Equal != 0 {
		ins = append(ins,
			asm.LoadMem(asm.R1, asm.R6, c.Filter, asm.DWord),
			asm.JNE.Imm(asm.R1, c.Equal, "exit"))
	}
	switch {
	case c.Helper != 0:
		ins = append(ins,
			asm.StoreMem(asm.RFP, -16, asm.R7, asm.DWord), // 0
			asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -16))
		if c.Helper == asm.FnGetFuncArg {
			ins = append(ins, asm.Mov.Reg(asm.R3, asm.R2), asm.Mov.Imm(asm.R2, int32(c.Value)))
		}
		ins = append(ins, c.Helper.Call(), asm.LoadMem(asm.R7, asm.RFP, -16, asm.DWord))
	case c.Value >= 0:
		ins = append(ins, asm.LoadMem(asm.R7, asm.R6, c.Value, asm.DWord))
	}
	if c.Sites {
		ins = append(ins,
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.FnGetAttachCookie.Call(),
			asm.And.Imm(asm.R0, 0xff), // site + 1
			asm.Sub.Imm(asm.R0, 1))
	} else {
		ins = append(ins, asm.Mov.Imm(asm.R0, c.Key))
	}
	load := asm.LoadMapPtr(asm.R1, 0).WithReference("hits")
	if m != nil {
		load = asm.LoadMapPtr(asm.R1, m.FD())
	}
	ins = append(ins, asm.StoreMem(asm.RFP, -4, asm.R0, asm.Word))
	return OwnIDs(append(ins, TallyUp(typ, load, -4)...))
}

// Plan is a *probe.Plan. This package cannot import probe, because probe's own tests import
// this package.
type Plan interface {
	ProgramSpec(i int) *ebpf.ProgramSpec
}

// Collection returns a collection with a counting program for each program of a plan. They
// count in m, as Instructions does.
func (c Counting) Collection(plan Plan, m *ebpf.Map) *ebpf.CollectionSpec {
	spec := &ebpf.CollectionSpec{
		Programs: map[string]*ebpf.ProgramSpec{},
		Maps:     map[string]*ebpf.MapSpec{},
	}
	for i := 0; ; i++ {
		p := plan.ProgramSpec(i)
		if p == nil {
			return spec
		}
		p.License, p.Instructions = "GPL", c.Instructions(p.Type, m)
		spec.Programs[p.Name] = p
	}
}

// OwnIDs makes a program compare the ids of processes in this test's pid namespace, so that it
// also works in a container.
func OwnIDs(ins asm.Instructions) asm.Instructions {
	return kernel.OwnPIDNamespace().OwnIDs(ins, true)
}

// TallyUp adds one to Count and R7 to Sum in the map that load puts into R1, at the key in the
// frame, and ends a program of type typ. Programs that count nothing jump to "exit".
func TallyUp(typ ebpf.ProgramType, load asm.Instruction, key int32) asm.Instructions {
	return asm.Instructions{
		load,
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Add.Imm(asm.R0, 8),
		asm.StoreXAdd(asm.R0, asm.R7, asm.DWord),
		asm.Mov.Imm(asm.R0, kernel.Idle(typ)).WithSymbol("exit"),
		asm.Return(),
	}
}

// NewTallies creates a map of 256 tallies. The caller closes it.
func NewTallies(t testing.TB) *ebpf.Map {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 256})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ReadTally returns the tally at key i.
func ReadTally(t testing.TB, m *ebpf.Map, i int) Tally {
	t.Helper()
	var v Tally
	if err := m.Lookup(uint32(i), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// ArgOffset returns the offset of the first integer argument in pt_regs.
func ArgOffset() int16 {
	if runtime.GOARCH == "arm64" {
		return 0
	}
	return 112 // rdi
}

// RetOffset returns the offset of the return value in pt_regs.
func RetOffset() int16 {
	if runtime.GOARCH == "arm64" {
		return 0
	}
	return 80 // rax
}

// ExpectGone waits until a link is gone from the kernel, which may defer freeing it. If the
// link is still there after two seconds, the test fails.
func ExpectGone(t testing.TB, id link.ID) {
	t.Helper()
	for range 200 {
		l, err := link.NewFromID(id)
		if err != nil {
			return
		}
		l.Close()
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("link %d is still there", id)
}

// ExpectTally fails the test if the tallies differ.
func ExpectTally(t testing.TB, got, want Tally) {
	t.Helper()
	if got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

// GetppidFunc returns a function of the kernel that the target calls 23 times in a run, that
// returns this process's id, and that almost no other process calls. A program on a function
// that every process calls is preempted inside others now and then, and the kernel skips the
// program for calls on that CPU meanwhile.
func GetppidFunc() string {
	if runtime.GOARCH == "arm64" {
		return "__arm64_sys_getppid"
	}
	// SYSCALL_DEFINE0, arch/x86/include/asm/syscall_wrapper.h; __x64_… is its alias
	return "__do_sys_getppid"
}

// ExpectWrites checks a tally of ksys_write with a value that is 1 in each of the target's
// calls, one in a run. It does not check the number of calls exactly; tests use GetppidFunc
// for that.
func ExpectWrites(t testing.TB, got Tally) {
	t.Helper()
	if got.Count == 0 || got.Count > Times || got.Sum != got.Count {
		t.Errorf("counted %+v, want 1 of each of up to %d", got, Times)
	}
}

// HasCookies reports whether programs can read which of their sites fired.
func HasCookies() bool { return feature.Test(feature.AttachCookie) == nil }
