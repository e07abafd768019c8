package bpfwalk

import (
	"debug/elf"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack"
)

// kernelWalker is the walker for this kernel: without bpf_loop and
// bpf_task_pt_regs where it lacks them.
func kernelWalker(t *testing.T) *Walker {
	t.Helper()
	w := &Walker{Machine: elf.EM_X86_64}
	if runtime.GOARCH == "arm64" {
		w.Machine = elf.EM_AARCH64
	}
	lacks := func(fn asm.BuiltinFunc) bool {
		return errors.Is(features.HaveProgramHelper(ebpf.PerfEvent, fn), ebpf.ErrNotSupported)
	}
	w.PlainLoop = lacks(asm.FnLoop)
	if lacks(asm.FnTaskPtRegs) {
		spec, err := btf.LoadKernelSpec()
		if err != nil {
			t.Fatal(err)
		}
		var task *btf.Struct
		if err := spec.TypeByName("task_struct", &task); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(task.Members, func(m btf.Member) bool { return m.Name == "stack" })
		w.TaskStackOffset = int(task.Members[i].Offset.Bytes())
	}
	t.Logf("plain loop %v, offset of task_struct.stack %d", w.PlainLoop, w.TaskStackOffset)
	return w
}

// stateProgram walks and sends the state.
func stateProgram(w *Walker) asm.Instructions {
	ins := append(walkedState("scratch"),
		asm.LoadMapPtr(asm.R1, 0).WithReference("ring"),
		asm.Mov.Reg(asm.R2, asm.R6),
		asm.Mov.Imm(asm.R3, int32(w.StateSize())),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	)
	return append(ins, w.Instructions()...)
}

// TestWalkerSelf walks this process on whatever kernel and machine the test
// runs, known and unknown: all stacks of the spinning function lead to the test.
func TestWalkerSelf(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Ringbuf)
	w := kernelWalker(t)
	b := loadBPF(t, w.StateSize(), stateProgram(w), nil)
	for _, known := range []bool{false, true} {
		if known {
			var cache stack.CFICache
			mods, err := cache.Modules(os.Getpid())
			if err != nil {
				t.Log(err)
			}
			if err := b.tables.SetProcess(os.Getpid(), mods); err != nil {
				t.Fatal(err)
			}
		}
		b.checkSelf(t, w, known)
	}
}

func (b *bpfBench) checkSelf(t *testing.T, w *Walker, known bool) {
	rd, err := ringbuf.NewReader(b.maps["ring"])
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := b.sample(t, 0, 999) // of this thread
	spinning, whole, samples := 0, 0, 0
	hows := make(map[stack.FrameSource]int)
	for deadline := time.Now().Add(20 * time.Second); spinning < 50 && time.Now().Before(deadline); {
		spinHere()
		for {
			rd.SetDeadline(time.Now())
			rec, err := rd.Read()
			if err != nil {
				break
			}
			samples++
			s := w.Decode(nil, rec.RawSample)
			if s.Unknown == known {
				t.Fatalf("known %v, but the stack says unknown %v", known, s.Unknown)
			}
			if b.spinning(t, &s, hows) {
				spinning++
				if s.Stopped == stack.StopBottom {
					whole++
				}
			}
		}
	}
	l.Close()
	drain(rd) // what came since the last read is not the next round's
	t.Logf("known %v: %d samples, %d of the spinning function, %d of them whole, frames by %v", known, samples, spinning, whole, hows)
	if spinning < 20 {
		t.Errorf("only %d stacks of %d have the spinning function and lead to the test", spinning, samples)
	}
	if known && 10*whole < 9*spinning {
		t.Errorf("%d of %d are whole", whole, spinning)
	}
}

// drain reads what is left in a ring that no program writes to any more.
func drain(rd *ringbuf.Reader) {
	rd.SetDeadline(time.Now())
	for {
		if _, err := rd.Read(); err != nil {
			return
		}
	}
}

// spinning reports whether a stack has spinHere, and fails the test if it does
// not then lead to the test's function.
func (b *bpfBench) spinning(t *testing.T, s *Stack, hows map[stack.FrameSource]int) bool {
	t.Helper()
	var names []string
	for _, f := range s.Frames {
		name := "?"
		if fn := runtime.FuncForPC(uintptr(f.LookupPC())); fn != nil {
			name = fn.Name()
		}
		names = append(names, name)
		hows[f.Source]++
	}
	all := strings.Join(names, " ")
	if !strings.Contains(all, "bpfwalk.spinHere") {
		return false
	}
	if !strings.Contains(all, "testing.tRunner") {
		t.Fatalf("%v: %s", s.Stopped, all)
	}
	return true
}
