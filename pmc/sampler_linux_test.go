package pmc

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
)

// records are those that a sampler has ready. Each is valid until the next.
func records(t *testing.T, s *Sampler) iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		t.Helper()
		var rec Record
		for {
			ok, err := s.TryRead(&rec)
			if err != nil {
				t.Fatal(err)
			}
			if !ok || !yield(&rec) {
				return
			}
		}
	}
}

// TestSampleContextSwitches: one record for each event at period 1, with its
// fields, and none lost.
func TestSampleContextSwitches(t *testing.T) {
	testenv.Need(t, testenv.Root)
	lockThread(t)
	now := func() uint64 {
		var ts unix.Timespec
		unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
		return uint64(ts.Nano())
	}
	start := now()
	s, err := OpenSampler(ContextSwitches(), Scope{}, SamplingSpec{
		Period: 1, IP: true, Thread: true, Time: true, CPU: true, SamplePeriod: true, Callchain: true, Counts: true,
		MonotonicTime: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 20 {
		time.Sleep(time.Microsecond)
		ts := unix.Timespec{Nsec: 1000}
		unix.Nanosleep(&ts, nil)
	}
	if err := s.Disable(); err != nil {
		t.Fatal(err)
	}
	end := now()
	var samples, value, last uint64
	for rec := range records(t, s) {
		if !rec.IsSample() {
			continue
		}
		samples++
		sm := rec.Sample
		if int(sm.TID) != unix.Gettid() || int(sm.PID) != os.Getpid() || sm.Period != 1 || len(sm.Callchain) == 0 ||
			sm.Time < start || sm.Time > end || sm.Time < last || int(sm.CPU) >= 1<<13 {
			t.Fatalf("sample %d: %+v, time %d to %d", samples, sm, start, end)
		}
		last, value = sm.Time, sm.Read[0].Value
	}
	if samples < 20 || samples != value {
		t.Errorf("%d samples for %d events", samples, value)
	}
	if st := s.Stats(); st.Lost != 0 || st.Corrupt != 0 || st.Records < samples {
		t.Errorf("stats %+v", st)
	}
}

// TestSampleClock: the task clock by period has a sample for each overflow, as
// many as a BPF program on the same event counted, and not more than the thread
// ran periods.
func TestSampleClock(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	lockThread(t)
	s, err := OpenSampler(TaskClock(), Scope{}, SamplingSpec{Period: 1_000_000, IP: true, SamplePeriod: true, Counts: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Disable(); err != nil {
		t.Fatal(err)
	}
	counts, prog := overflowCounter(t)
	if err := s.Handles()[0].SetBPF(prog.FD()); err != nil {
		t.Fatal(err)
	}
	for range records(t, s) { // of the time before the program was attached
	}
	lost := s.Stats().Lost
	if err := s.Enable(); err != nil {
		t.Fatal(err)
	}
	overflows := uint64(0)
	for overflows < 40 { // however long that takes
		if err := counts.Lookup(uint32(0), &overflows); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Disable(); err != nil {
		t.Fatal(err)
	}
	if err := counts.Lookup(uint32(0), &overflows); err != nil {
		t.Fatal(err)
	}
	samples, last := uint64(0), uint64(0)
	for rec := range records(t, s) {
		if rec.IsSample() {
			samples++
			if v := rec.Sample.Read[0].Value; v <= last {
				t.Errorf("sample %d at %d ns, after one at %d ns", samples, v, last)
			} else {
				last = v
			}
		}
	}
	st := s.Stats()
	if samples+st.Lost-lost != overflows {
		t.Errorf("%d samples and %d lost for %d overflows", samples, st.Lost-lost, overflows)
	}
	// The clock is a timer, which skips what it is too late for: there may be
	// fewer samples than periods, never more.
	if ran := float64(last) / 1e6; float64(samples) > 1.05*ran+1 {
		t.Errorf("%d samples of 1 ms while the thread ran %.1f ms", samples, ran)
	}
}

// overflowCounter is a program that counts the overflows of the event that it
// is attached to, and lets each make its sample.
func overflowCounter(t *testing.T) (*ebpf.Map, *ebpf.Program) {
	t.Helper()
	if err := kernel.RaiseMemlock(); err != nil {
		t.Fatal(err)
	}
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { counts.Close() })
	insns := asm.Instructions{
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, counts.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("exit"), // keep the sample
		asm.Return(),
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.PerfEvent, License: "GPL", Instructions: insns})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	return counts, prog
}

// TestTaskRecords: a child's life as records: fork, exec, mappings, exit.
func TestTaskRecords(t *testing.T) {
	testenv.Need(t, testenv.Root)
	lockThread(t)
	s, err := OpenSampler(Dummy(), Scope{}, SamplingSpec{
		Thread: true, Time: true, ID: true,
		Comm: true, Task: true, Mmap: true, Switches: true,
	}, &SamplerOptions{Inherit: true, Pages: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cmd := testenv.Command(t, "/proc/self/exe").Here()
	cmd.Env = append(os.Environ(), "PMC_CHILD=1")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	pid := uint32(cmd.Process.Pid)
	seen := map[string]bool{}
	for rec := range records(t, s) {
		switch {
		case rec.IsFork() && rec.Task.PID == pid:
			seen["fork"] = seen["fork"] || rec.Task.PPID == uint32(os.Getpid())
		case rec.IsComm() && rec.Comm.PID == pid:
			seen["exec"] = seen["exec"] || rec.Comm.Exec && rec.Comm.Name != ""
		case rec.IsMmap() && rec.Mmap.PID == pid:
			seen["mmap"] = seen["mmap"] || strings.HasPrefix(rec.Mmap.Path, "/") && rec.Mmap.Inode != 0 && rec.ID.PID == pid
		case rec.IsExit() && rec.Task.PID == pid:
			seen["exit"] = true
		case rec.IsSwitch():
			seen["switch"] = true
		}
	}
	for _, what := range []string{"fork", "exec", "mmap", "exit", "switch"} {
		if !seen[what] {
			t.Errorf("no %s record of the child", what)
		}
	}
}

// TestSamplerLoss: what a full ring lost is counted: read and lost make up
// what happened.
func TestSamplerLoss(t *testing.T) {
	testenv.Need(t, testenv.Root)
	lockThread(t)
	s, err := OpenSampler(ContextSwitches(), Scope{}, SamplingSpec{Period: 1, IP: true, Callchain: true, Counts: true}, &SamplerOptions{Pages: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	switches := func(n int) {
		for range n {
			ts := unix.Timespec{Nsec: 50_000} // Linux 7.2 does not sleep for less
			unix.Nanosleep(&ts, nil)
		}
	}
	samples, value := uint64(0), uint64(0)
	drain := func() {
		for rec := range records(t, s) {
			if rec.IsSample() {
				samples++
				value = rec.Sample.Read[0].Value
			}
		}
	}
	switches(500)
	drain()
	switches(3) // the kernel tells of losses with the next record that fits
	drain()
	lost := s.Stats().Lost
	t.Logf("%d events, %d read, %d lost", value, samples, lost)
	if lost == 0 || samples+lost != value {
		t.Errorf("%d read + %d lost of %d", samples, lost, value)
	}
}

// TestSamplerEnds: a wait ends with data, with the context, with the sampled
// thread's end, and with Close.
func TestSamplerEnds(t *testing.T) {
	testenv.Need(t, testenv.Root)
	idle := func() *Sampler {
		s, err := OpenSampler(Dummy(), Scope{}, SamplingSpec{Thread: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	lockThread(t)
	s := idle()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	var rec Record
	if err := s.ReadInto(ctx, &rec); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("context: %v", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { s.Close() })
	if err := s.ReadInto(context.Background(), &rec); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.TryRead(&rec); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}

	tid, open := make(chan int), make(chan struct{})
	var thread func()
	thread = func() {
		runtime.LockOSThread() // and end the thread with the goroutine
		if unix.Gettid() == os.Getpid() {
			go thread() // the first thread never ends: take another one
			<-open
			return
		}
		tid <- unix.Gettid()
		<-open
		for range 10 { // one may be over before the thread is off its CPU
			ts := unix.Timespec{Nsec: 1_000_000}
			unix.Nanosleep(&ts, nil)
		}
	}
	go thread()
	s, err := OpenSampler(ContextSwitches(), Scope{Thread: <-tid}, SamplingSpec{Period: 1, Thread: true, Wakeup: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	close(open)
	n := 0
	ctx, cancel = context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		err := s.ReadInto(ctx, &rec)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("after %d records: %v", n, err)
		}
		n++
	}
	if n == 0 {
		t.Error("no record before the thread's end")
	}
}

// TestPreciseFallback: a level that can't be had is lowered, and said.
func TestPreciseFallback(t *testing.T) {
	testenv.Need(t, testenv.Root)
	e, err := ParseEvent("cpu-clock:P", nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := openEvent(e, onThread(0), &openOptions{sampling: &SamplingSpec{Freq: 99}, disabled: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	if h.Precise() != 0 {
		t.Errorf("a software clock with precise level %d", h.Precise())
	}
}
