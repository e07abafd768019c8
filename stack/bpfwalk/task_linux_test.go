package bpfwalk

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

// taskOffsets are those of the running kernel.
func taskOffsets(t *testing.T) *TaskOffsets {
	t.Helper()
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	at, err := kernel.MemberOffsets(spec, "task_struct.real_parent", "task_struct.tgid",
		"task_struct.mm", "mm_struct.exe_file")
	if err != nil {
		t.Fatal(err)
	}
	return &TaskOffsets{
		Parent: int(at[0]), TGID: int(at[1]), MM: int(at[2]), Executable: int(at[3]),
	}
}

// TestForkedChild walks children of a process, which alone is known: the one that executed
// nothing is walked as its parent is. It was walked by frame pointers.
func TestForkedChild(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Ringbuf, bpfLoop, taskPtRegs)
	w := kernelWalker(t)
	w.Task = taskOffsets(t)
	b := loadBPF(t, w.StateSize(), stateProgram(w), nil)
	pid := stacktest.StartCompiled(t, "forks", stacktest.Forks)
	var cache stack.CFICache
	mods, err := cache.Modules(pid)
	if err != nil {
		t.Log(err)
	}
	if err := b.tables.SetProcess(pid, mods); err != nil {
		t.Fatal(err)
	}
	children := stacktest.Children(pid)
	if len(children) != 2 {
		t.Fatalf("children %v", children)
	}
	for _, child := range children {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		again := bytes.Contains(args, []byte("again"))
		rd, err := ringbuf.NewReader(b.maps["ring"])
		if err != nil {
			t.Fatal(err)
		}
		event := b.sample(t, child, 999)
		rd.SetDeadline(time.Now().Add(time.Minute))
		for range 20 {
			rec, err := rd.Read()
			if err != nil {
				t.Fatal(err)
			}
			s := w.Decode(nil, rec.RawSample)
			if s.Unknown != again || !again && s.Stopped != stack.StopBottom {
				t.Errorf("executed %v: unknown %v, %v %v", again, s.Unknown, s.Frames, s.Stopped)
			}
		}
		event.Close()
		drain(rd)
		rd.Close()
	}
}
