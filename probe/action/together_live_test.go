//go:build linux

package action_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/stack/collect"
)

// ownProgram is a program that a service has written for cilium/ebpf itself: it counts the marks.
type ownProgram struct {
	m    *ebpf.Map
	prog *ebpf.Program
	link link.Link
}

func attachOwn(t *testing.T) *ownProgram {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "own", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "own", Type: ebpf.RawTracepoint, License: "GPL",
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R6, asm.R1, 8, asm.DWord), // the call's number
			asm.LoadImm(asm.R7, int64(mark), asm.DWord),
			asm.JNE.Reg(asm.R6, asm.R7, "end"),
			asm.StoreImm(asm.RFP, -4, 0, asm.Word),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.LoadMapPtr(asm.R1, m.FD()),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "end"),
			asm.Mov.Imm(asm.R1, 1),
			asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
			asm.Return(),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sys_enter", Program: prog})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &ownProgram{m, prog, l}
}

func (o *ownProgram) counted(t *testing.T) (n, missed uint64) {
	t.Helper()
	if err := o.m.Lookup(uint32(0), &n); err != nil {
		t.Fatal(err)
	}
	if st, err := o.prog.Stats(); err == nil { // the kernel counts them since 5.12
		missed = st.RecursionMisses
	}
	return n, missed
}

// TestTogether: sessions of one program and of several, a collector of stacks, and a program of
// the service's own on cilium/ebpf live in one process, each with its own
// exact counts. Closing one changes nothing for the others.
func TestTogether(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracepoint("syscalls", "sys_enter_getppid"))
	const each = 500
	twice := action.NewCount("n")
	p := marked("twice", func(c *action.Ctx) { twice.Inc(c) })
	first, second := attach(t, p), attach(t, p)
	other := action.NewCounter[uint32]("n", 8) // a map of the same name
	third := attach(t, marked("other", func(c *action.Ctx) { other.Inc(c, 7) }))
	own := attachOwn(t)
	c, err := collect.Attach([]probe.Target{probe.Tracepoint{Group: "syscalls", Name: "sys_enter_getppid"}},
		&collect.Options{PIDs: []int{os.Getpid()}, IncludeSelf: true, NoUser: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })

	session := func(s *action.Session, read func() uint64) func() (n, missed uint64) {
		return func() (uint64, uint64) {
			st, err := s.Stats()
			if err != nil {
				t.Fatal(err)
			}
			return read(), st.Missed
		}
	}
	readers := map[string]func() (n, missed uint64){
		"the first":  session(first, func() uint64 { return total(t, first, twice) }),
		"the second": session(second, func() uint64 { return total(t, second, twice) }),
		"the third":  session(third, func() uint64 { return total(t, third, other) }),
		"its own":    func() (uint64, uint64) { return own.counted(t) },
		"the stacks": func() (n, missed uint64) {
			samples, err := c.Samples()
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range samples {
				n += s.Count
			}
			st, err := c.Stats()
			if err != nil {
				t.Fatal(err)
			}
			return n, st.Missed + st.Lost()
		},
		"through mapx": func() (uint64, uint64) {
			m, err := mapx.New[uint32, uint64](own.m)
			if err != nil {
				t.Fatal(err)
			}
			n, _, err := m.Lookup(0)
			if err != nil {
				t.Fatal(err)
			}
			_, missed := own.counted(t)
			return n, missed
		},
	}
	made := uint64(0)
	expect := func(when string) {
		t.Helper()
		marks(each)
		for range each {
			syscall.Getppid()
		}
		made += each
		for name, read := range readers {
			if n, missed := read(); n > made || n+missed < made {
				t.Errorf("%s, %s: %d and %d missed of %d", when, name, n, missed, made)
			}
		}
	}
	expect("together")
	for _, close := range []struct {
		name string
		f    func() error
		ends []string
	}{
		{"the second", second.Close, nil},
		{"its own", own.link.Close, []string{"through mapx"}},
		{"the stacks", c.Close, nil},
		{"the third", third.Close, nil},
	} {
		if err := close.f(); err != nil {
			t.Fatal(err)
		}
		for _, name := range append(close.ends, close.name) {
			delete(readers, name)
		}
		expect("after closing " + close.name)
	}
	if n, _ := own.counted(t); n > 2*each {
		t.Errorf("the service's own program counts %d after its link was closed", n)
	}
}
