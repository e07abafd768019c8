package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/symbol"
)

// openRecords opens a sampler that takes no samples but writes these records.
func openRecords(t *testing.T, scope pmc.Scope, spec pmc.SamplingSpec, inherit bool) *pmc.Sampler {
	t.Helper()
	spec.Thread, spec.Time, spec.ID = true, true, true
	s, err := pmc.OpenSampler(pmc.Dummy(), scope, spec, &pmc.SamplerOptions{Inherit: inherit, Pages: 128})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestEvents names an address of a program that ran and ended before
// anything of it was read.
func TestEvents(t *testing.T) {
	testenv.Need(t, testenv.Root)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := openRecords(t, pmc.Scope{}, pmc.SamplingSpec{Task: true, Comm: true, Mmap: true}, true) // of this thread and its children
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, exe, "-test.run=^$").Here()
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	e, err := symbol.OpenELF(exe, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	want, err := e.Lookup("main.main")
	if err != nil {
		t.Fatal(err)
	}
	type timed struct {
		at uint64
		ev symbol.Event
	}
	var events []timed
	var rec pmc.Record
	for {
		ok, err := s.TryRead(&rec)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		if ev, ok := Event(&rec); ok && ev.PID == cmd.Process.Pid {
			events = append(events, timed{rec.ID.Time, ev})
		}
	}
	slices.SortStableFunc(events, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	ps := symbol.NewProcesses(nil)
	defer ps.Close()
	if _, err := ps.Process(cmd.Process.Pid); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the program is not gone: %v", err)
	}
	pc := uint64(0)
	if len(events) == 0 {
		t.Fatal("no records")
	}
	for i := range events {
		m := &events[i].ev
		ps.Handle(m)
		if m.Kind == symbol.EventMmap && m.Path == exe && want.Offset-m.Offset < m.Len {
			pc = m.Addr + want.Offset - m.Offset
		}
	}
	first, last := events[0].ev, events[len(events)-1].ev
	if first.Kind != symbol.EventFork || first.Parent != os.Getpid() || last.Kind != symbol.EventExit || pc == 0 {
		t.Errorf("%+v … %+v, main.main at %#x", first, last, pc)
	}
	p, err := ps.Process(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if fr := p.Resolve(nil, []uint64{pc}); fr[0].Name != "main.main" || fr[0].Module != exe || fr[0].Kind != symbol.KindGo {
		t.Errorf("got %+v", fr)
	}
}

// TestKernelSymbols names a BPF program that came after the kernel's symbols were
// read, and no longer when it is gone.
func TestKernelSymbols(t *testing.T) {
	testenv.Need(t, testenv.Root)
	k, err := symbol.OpenKernel(nil)
	if err == nil {
		err = k.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	// Of all CPUs: somebody who lists the programs meanwhile holds this one, too, and then
	// it goes with their last reference, wherever that is given up.
	s := openRecords(t, pmc.Scope{AllCPUs: true}, pmc.SamplingSpec{Ksymbols: true}, false)
	// Kernels before 5.11 charge programs against the limit that the rings have used up.
	_ = kernel.RaiseMemlock()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "came_and_went", Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	next := func() (ks symbol.KernelSymbol) {
		t.Helper()
		for rec := (pmc.Record{}); !strings.HasSuffix(ks.Name, "_came_and_went"); ks, _ = KernelSymbol(&rec) {
			if err := s.ReadInto(ctx, &rec); err != nil {
				prog.Close()
				t.Fatal(err)
			}
		}
		return ks
	}
	name := func(k *symbol.Kernel, pc uint64) symbol.Frame { return k.Resolve(nil, []uint64{pc})[0] }
	came := next()
	pc := came.Addr + uint64(came.Len)/2
	if fr := name(k, pc); strings.Contains(fr.Name, "came_and_went") {
		t.Errorf("known before: %+v", fr)
	}
	with := k.With(came)
	if fr := name(with, pc); fr.Name != came.Name || fr.Kind != symbol.KindBPF || fr.Module != "[bpf]" || fr.Offset != pc-came.Addr {
		t.Errorf("of %+v: got %+v", came, fr)
	}
	prog.Close()
	went := next()
	if !went.Unload || went.Addr != came.Addr {
		t.Errorf("it came as %+v and went as %+v", came, went)
	}
	if fr := name(with.With(went), pc); fr.Name != "" || fr.Reason != symbol.ReasonNoMapping {
		t.Errorf("known afterwards: %+v", fr)
	}
}
