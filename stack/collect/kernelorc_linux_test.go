package collect_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/internal/rules"
)

var recordKernel = flag.String("record-kernel", "", "record kernel stacks of TestORCMatchesKernel to this `file`")

var orcSamples = flag.Int("orc-samples", 300, "compare so many kernel `samples` with bpf_get_stack")

// TestKernelWork is the child of TestORCMatchesKernel: it has the kernel work,
// on whatever is there.
func TestKernelWork(t *testing.T) {
	if os.Getenv("COLLECT_WORKLOAD") != "kernel" {
		return
	}
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<16)
	for {
		if _, err := zero.Read(buf); err != nil {
			t.Fatal(err)
		}
		_, _ = os.ReadDir("/proc/self/fd")
		_, _ = os.ReadFile("/proc/self/maps")
		m, err := syscall.Mmap(-1, 0, 1<<18, syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(m); i += 4096 {
			m[i] = 1
		}
		_ = syscall.Munmap(m)
	}
}

// Kernel stacks walked by the running kernel's own tables are those that its own
// walker gives for the same events, through interrupts on stacks of their own.
func TestORCMatchesKernel(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Ringbuf, testenv.Arch("amd64"))
	start := time.Now()
	tables, err := collect.ReadORC(nil)
	if err != nil {
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	t.Logf("%d tables read in %v", len(tables), time.Since(start).Round(time.Millisecond))
	checkModules(t, tables[1:])
	cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestKernelWork$")
	cmd.Env = append(os.Environ(), "COLLECT_WORKLOAD=kernel")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	// In the child only, which runs no BPF programs of others' but those of the whole machine.
	only := collect.Options{PIDs: []int{cmd.Process.Pid}}
	c, err := collect.AttachCopies([]probe.Target{probe.Perf{Freq: 1999}}, &collect.CopyOptions{Options: only, KernelStacks: true})
	if err != nil {
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s := orcScore{tables: tables, walker: stack.ORCWalker{Tables: tables}}
	var rec kernelRecorder
	var cp collect.Copy
	for s.samples < *orcSamples {
		if err := c.ReadInto(ctx, &cp); err != nil {
			t.Fatal(err)
		}
		if s.compare(t, &cp) && *recordKernel != "" {
			rec.add(&cp, tables)
		}
	}
	rec.write(t)
	t.Logf("%d samples, %.1f frames each, %d on two stacks, %d identical (%.2f%%), %d more with BPF programs that the kernel leaves out",
		s.samples, float64(s.frames)/float64(s.samples), s.two, s.same, 100*float64(s.same)/float64(s.samples), s.bpf)
	if differ := s.samples - s.same - s.bpf; differ > max(3, s.samples/1000) {
		t.Errorf("%d of %d differ", differ, s.samples)
	}
	if n := testing.AllocsPerRun(20, func() { cp.Copied.Walk(s.dst[:], &s.walker) }); n != 0 {
		t.Errorf("walking a copy allocates %v times", n)
	}
}

// checkModules compares where the modules' tables begin with where the kernel
// says that its modules are.
func checkModules(t *testing.T, tables []*stack.ORCTable) {
	b, err := os.ReadFile("/proc/modules")
	if err != nil {
		return // a kernel without modules
	}
	var starts []uint64
	for line := range strings.Lines(string(b)) {
		var start uint64
		if f := strings.Fields(line); len(f) >= 6 {
			_, _ = fmt.Sscanf(f[5], "0x%x", &start)
		}
		starts = append(starts, start)
	}
	for _, o := range tables {
		if !slices.Contains(starts, o.Start) || o.End <= o.Start {
			t.Errorf("a table for %#x to %#x; modules begin at %#x", o.Start, o.End, starts)
		}
	}
	t.Logf("tables of %d modules of %d", len(tables), len(starts))
	if len(starts) > 0 && len(tables) == 0 {
		t.Errorf("no table of a module, of %d", len(starts))
	}
}

// orcScore counts how stacks compare.
type orcScore struct {
	tables                          []*stack.ORCTable
	walker                          stack.ORCWalker
	dst                             [stack.MaxFrames]stack.Frame
	samples, frames, two, same, bpf int
}

// compare says whether a sample's stacks are the same.
func (s *orcScore) compare(t *testing.T, cp *collect.Copy) bool {
	if cp.Copied.Regs.Have == 0 {
		return false // in the program's own code
	}
	pcs := func(frames []stack.Frame) (out []uint64) {
		for _, f := range frames {
			out = append(out, f.PC)
		}
		return out
	}
	n, end := cp.Copied.Walk(s.dst[:], &s.walker)
	got, want := pcs(s.dst[:n]), pcs(cp.Kernel.Frames)
	s.samples++
	s.frames += n
	if len(cp.Copied.Thread.Data) > 0 {
		s.two++
	}
	// Code that no table covers is a BPF program: one that is interrupted before
	// its frame pointer is set has no caller, for the kernel's walker as for this.
	known := func(pc uint64) bool {
		return slices.ContainsFunc(s.tables, func(t *stack.ORCTable) bool { return pc >= t.Start && pc < t.End })
	}
	switch text := slices.DeleteFunc(slices.Clone(got), func(pc uint64) bool { return !known(pc) }); {
	case slices.Equal(got, want) && (end != stack.StopBadMemory || !known(got[n-1])):
		s.same++
		return true
	case len(text) < len(got) && slices.Equal(text, want):
		s.bpf++
	case s.samples-s.same-s.bpf < 5:
		t.Logf("%v on %d and %d bytes of stack\n got %#x\nwant %#x", end, len(cp.Copied.Stack.Data), len(cp.Copied.Thread.Data), got, want)
	}
	return false
}

// kernelRecorder keeps stacks for testdata/kernel of package stack: a few on one
// stack, and a few that lead from an interrupt's stack to the thread's own.
type kernelRecorder struct {
	walks [2][]recordedKernel
}

// recordedKernel is read by package stack's TestRecordedKernelWalks.
type recordedKernel struct {
	Recipe, Oracle string
	Regs           map[int]uint64
	Memory         map[string]string // words of the stacks by address, in hex
	Rules          map[string]rules.ORC
	Frames         []string
	End            stack.StopReason
}

func (r *kernelRecorder) add(cp *collect.Copy, tables []*stack.ORCTable) {
	const each = 4
	kind := 0
	if len(cp.Copied.Thread.Data) > 0 {
		kind = 1
	}
	if len(r.walks[kind]) == each || len(cp.Kernel.Frames) < 4 || len(cp.Kernel.Frames) > 30 {
		return
	}
	w := recordedKernel{
		Oracle: "bpf_get_stack", Regs: make(map[int]uint64), Memory: make(map[string]string), Rules: make(map[string]rules.ORC),
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	w.Recipe = "TestORCMatchesKernel on Linux " + strings.TrimSpace(string(release))
	for i := range 64 {
		if v, ok := cp.Copied.Regs.Reg(i); ok {
			w.Regs[i] = v
		}
	}
	var dst [stack.MaxFrames]stack.Frame
	walker := stack.ORCWalker{Tables: tables}
	n, end := walker.Walk(dst[:], &cp.Copied.Regs, wordRecorder{&cp.Copied, w.Memory})
	w.End = end
	for _, f := range dst[:n] {
		w.Frames = append(w.Frames, fmt.Sprintf("%x", f.PC))
		for _, t := range tables {
			if rule, ok := t.Rule(f.LookupPC()); ok {
				w.Rules[fmt.Sprintf("%x", f.LookupPC())] = rule
				break
			}
		}
	}
	r.walks[kind] = append(r.walks[kind], w)
}

func (r *kernelRecorder) write(t *testing.T) {
	if *recordKernel == "" {
		return
	}
	b, err := json.MarshalIndent(slices.Concat(r.walks[0], r.walks[1]), "", " ")
	if err == nil {
		err = os.WriteFile(*recordKernel, append(b, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// wordRecorder keeps what is read.
type wordRecorder struct {
	mem   stack.Memory
	bytes map[string]string
}

func (w wordRecorder) ReadMemory(dst []byte, addr uint64) error {
	err := w.mem.ReadMemory(dst, addr)
	if err == nil {
		w.bytes[fmt.Sprintf("%x", addr)] = hex.EncodeToString(dst)
	}
	return err
}

// Copies of the kernel's stacks need a program that is given registers.
func TestKernelStacksNeedRegisters(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Arch("amd64"))
	c, err := collect.AttachCopies([]probe.Target{probe.Tracepoint{Group: "sched", Name: "sched_switch"}}, &collect.CopyOptions{KernelStacks: true})
	if err == nil {
		c.Close()
		t.Error("a tracepoint was accepted")
	}
}

// Recorded copies of the kernel's stacks replay as what they were.
func TestKernelStacksReplay(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Ringbuf, testenv.Arch("amd64"))
	dir := filepath.Join(t.TempDir(), "recording")
	rec, err := recording.Create(dir, &recording.Meta{Tool: "test"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := collect.AttachCopies([]probe.Target{probe.Perf{Freq: 999}}, &collect.CopyOptions{
		Options: collect.Options{Idle: true, IncludeSelf: true}, KernelStacks: true,
	})
	if err != nil {
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	defer c.Close()
	c.Record(rec)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	read := func(c *collect.Copies) (all []string) {
		var cp collect.Copy
		for range 20 {
			if err := c.ReadInto(ctx, &cp); err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprint(cp.Time, cp.TID, cp.Comm, cp.Kernel, cp.Copied.Regs, len(cp.Copied.Stack.Data), len(cp.Copied.Thread.Data)))
		}
		return all
	}
	live := read(c)
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	recording, err := recording.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	replay, err := collect.ReplayCopies(recording)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(replay); !slices.Equal(got, live) {
		t.Errorf("replayed\n%q, recorded\n%q", got, live)
	}
}
