//go:build amd64 || arm64

package pmc

import (
	"errors"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/pmc/internal/spin"
)

// These tests need a PMU: they run in the arm64 guests of internal/vmtest
// (QEMU's -icount makes counts exact), and on any machine that has one.

func userOnly(e Event) Event {
	e.Exclude = Exclude{Kernel: true, HV: true}
	return e
}

// TestInstructionsExact: a loop of known length counts as many instructions as
// it has, within 0.1 %, whatever its size.
func TestInstructionsExact(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.PMU)
	spin.Quiet(t)
	c := openAll(t, Scope{}, nil, userOnly(Instructions()), userOnly(Cycles()))
	before, after := read(t, c), read(t, c) // both have their memory now
	for _, n := range []uint64{1e6, 3e6, 8e6} {
		err1 := c.Read(&before)
		spin.Loop(n)
		if err := errors.Join(err1, c.Read(&after)); err != nil {
			t.Fatal(err)
		}
		v := after.Sub(before).Totals()
		want := float64(n * spin.PerIteration)
		got := float64(v[0].Count)
		t.Logf("%d iterations: %.5f instructions, %.5f cycles each", n, got/float64(n), float64(v[1].Count)/float64(n))
		if v[0].Confidence != Exact {
			t.Fatalf("instructions: %+v", v[0])
		}
		if off := math.Abs(got-want) / want; off > 0.001 {
			t.Errorf("%d iterations: %.0f instructions, want %.0f: %.3f %% off", n, got, want, 100*off)
		}
	}
}

// TestMultiplexing: twelve events share fewer counters; each is counted part of
// the time, says so, and is scaled to within 0.1 % of the others.
func TestMultiplexing(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.PMU, testenv.Arch("arm64")) // event numbers of PMUv3
	spin.Quiet(t)
	events := make([]Event, 12)
	for i := range events {
		events[i] = userOnly(Raw(0x08)) // INST_RETIRED
		events[i].Label = string(rune('a' + i))
	}
	c := openAll(t, Scope{}, &CountOptions{Disabled: true}, events...)
	if groupsOf(c) < 2 {
		testenv.Need(t, testenv.Missing("few counters", "all twelve fit"))
	}
	if err := c.Enable(); err != nil {
		t.Fatal(err)
	}
	const n = 100e6 // some seconds of rotations, so that a slice more or less is little
	for range 10 {
		spin.Loop(n / 10)
	}
	if err := c.Disable(); err != nil {
		t.Fatal(err)
	}
	k := read(t, c)
	var sum, sumRaw float64
	for _, v := range k.Totals() {
		sum += float64(v.Count)
		sumRaw += float64(v.Raw)
	}
	mean := sum / 12
	worst := 0.0
	for _, v := range k.Totals() {
		worst = max(worst, math.Abs(float64(v.Count)-mean)/mean)
		low, high := v.Bounds(2)
		if v.Confidence != High || v.Coverage > 0.95 || low >= float64(v.Count) || high <= float64(v.Count) {
			t.Errorf("%s: %s, coverage %.2f, %d between %.0f and %.0f", v.Event.Label, v.Confidence, v.Coverage, v.Count, low, high)
		}
	}
	t.Logf("%d groups, coverage %.3f, raw mean %.0f, scaled mean %.0f (%.5f of the loop's), at most %.4f %% apart",
		groupsOf(c), k.Totals()[0].Coverage, sumRaw/12, mean, mean/(n*spin.PerIteration), 100*worst)
	if worst > 0.001 {
		t.Errorf("scaled counts are up to %.3f %% from their mean", 100*worst)
	}
}

// TestPeriodSampling: cycles/period samples, within 2 %.
func TestPeriodSampling(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.PMU)
	lockThread(t)
	const period = 1_000_000
	s, err := OpenSampler(Cycles(), Scope{}, SamplingSpec{Period: period, IP: true, Thread: true, SamplePeriod: true, Counts: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	spin.Loop(30e6)
	if err := s.Disable(); err != nil {
		t.Fatal(err)
	}
	var samples, inLoop int
	var count uint64
	for rec := range records(t, s) {
		if !rec.IsSample() {
			continue
		}
		samples++
		count = rec.Sample.Read[0].Value
		if rec.Sample.Period != period || rec.Sample.TID == 0 {
			t.Fatalf("sample %+v", rec.Sample)
		}
		if f := runtime.FuncForPC(uintptr(rec.Sample.IP)); f != nil && f.Name() == "github.com/borescope/borescope/pmc/internal/spin.Loop" {
			inLoop++
		}
	}
	want := float64(count) / period
	t.Logf("%d samples for %d cycles, %d of them in the loop", samples, count, inLoop)
	if off := math.Abs(float64(samples)-want) / want; off > 0.02 || samples < 100 {
		t.Errorf("%d samples, want %.0f ± 2 %%", samples, want)
	}
	if inLoop < samples*9/10 {
		t.Errorf("%d of %d samples in the loop", inLoop, samples)
	}
	if st := s.Stats(); st.Lost != 0 || st.Corrupt != 0 {
		t.Errorf("stats %+v", st)
	}
}

// TestUserReads: reads make no system call, never go back, and lie between the read(2) before
// and the one after.
func TestUserReads(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.PMU)
	allowUserReads(t)
	spin.Quiet(t)
	m, err := OpenMeter([]Event{userOnly(Cycles()), userOnly(Instructions())}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if !m.UserReads() {
		testenv.Need(t, testenv.Missing("user-space counter reads", "not permitted by this kernel or PMU"))
	}
	var k Counts
	var v, last [2]uint64
	for i := range 100_000 {
		if err := m.Values(v[:]); err != nil {
			t.Fatal(err)
		}
		if v[0] < last[0] || v[1] < last[1] {
			t.Fatalf("step %d: from %v back to %v", i, last, v)
		}
		last = v
		if i%100 != 0 {
			continue
		}
		if err := m.Read(&k); err != nil {
			t.Fatal(err)
		}
		for e := range v {
			if k.Rows[e].Raw < v[e] {
				t.Fatalf("step %d: read(2) gives %d after %d", i, k.Rows[e].Raw, v[e])
			}
			last[e] = k.Rows[e].Raw
		}
	}
	const times = 1000
	values := readCalls(t, func() {
		for range times {
			m.Values(v[:])
		}
	})
	if read := readCalls(t, func() {
		for range times {
			m.Read(&k)
		}
	}); values != 0 || read != times {
		t.Errorf("%d times Values took %d calls of read(2), Read took %d", times, values, read)
	}
	if n := testing.AllocsPerRun(100, func() { m.Values(v[:]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	before := k
	m.Read(&before)
	value, enabled, running, ok := m.pages[0].Times()
	m.Read(&k)
	if !ok || value > k.Rows[0].Raw || running > k.Rows[0].Running || enabled > k.Rows[0].Enabled {
		t.Errorf("page: %d %v %v %v, read(2): %+v", value, enabled, running, ok, k.Rows[0])
	}
	// The page's clock is scaled by its own factor: it was 1.7 µs behind after 30 ms (arm64 6.12).
	if least := before.Rows[0].Enabled - 100*time.Microsecond; m.pages[0].HasClock() && enabled < least {
		t.Errorf("page: enabled for %v, read(2) before: %v", enabled, before.Rows[0].Enabled)
	}
}

// allowUserReads sets arm64's sysctl for the test.
func allowUserReads(t *testing.T) {
	const sysctl = "/proc/sys/kernel/perf_user_access"
	old, err := os.ReadFile(sysctl)
	if err != nil || !testenv.InGuest() {
		return
	}
	if err := os.WriteFile(sysctl, []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.WriteFile(sysctl, old, 0) })
}

// readCalls returns how often f calls read(2), which succeeds, in this thread, to which the test
// is locked (inc_syscr, fs/read_write.c).
func readCalls(t *testing.T, f func()) int {
	t.Helper()
	calls := func() int {
		b, err := os.ReadFile("/proc/thread-self/io") // one call with something, one at the end
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(b), "syscr: ")
		line, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := calls()
	own := calls() - before
	before = calls()
	f()
	return calls() - before - own
}

// TestMeterWithoutUserReads: where the kernel does not permit it, the same
// calls use read(2).
func TestMeterWithoutUserReads(t *testing.T) {
	testenv.Need(t, testenv.Root)
	lockThread(t)
	m, err := OpenMeter([]Event{TaskClock(), PageFaults()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var a, b [2]uint64
	if err := m.Values(a[:]); err != nil {
		t.Fatal(err)
	}
	// A clock may be as coarse as the tick.
	for t0 := time.Now(); b[0] <= a[0] && time.Since(t0) < time.Minute; {
		if err := m.Values(b[:]); err != nil {
			t.Fatal(err)
		}
	}
	if m.UserReads() || b[0] <= a[0] {
		t.Errorf("%v, then %v", a, b)
	}
	if err := m.Values(a[:1]); err == nil {
		t.Error("one value for two events")
	}
}

// TestBPFReads: a BPF program on the same CPU reads what read(2) reads.
func TestBPFReads(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.PMU)
	testBPFReads(t, Cycles(), Instructions())
}

// TestBPFReadsSoftware is TestBPFReads where there is no PMU.
func TestBPFReadsSoftware(t *testing.T) {
	testenv.Need(t, testenv.Root)
	testBPFReads(t, CPUClock(), PageFaults())
}

func testBPFReads(t *testing.T, events ...Event) {
	online, err := cpus.Online(nil)
	if err != nil {
		t.Fatal(err)
	}
	possible, err := cpus.Possible(nil)
	if err != nil {
		t.Fatal(err)
	}
	cpu := online[0]
	c := openAll(t, Scope{CPUs: []int{cpu}}, nil, events...)
	for i, e := range events {
		counters, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerfEventArray, MaxEntries: uint32(possible[len(possible)-1] + 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer counters.Close()
		if err := counters.Put(uint32(cpu), uint32(c.Handles(e)[0].FD())); err != nil {
			t.Fatal(err)
		}
		out, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 24, MaxEntries: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL", Instructions: readValueProgram(counters, out)})
		if err != nil {
			t.Fatal(err)
		}
		defer prog.Close()
		before := read(t, c)
		ret, err := prog.Run(&ebpf.RunOptions{CPU: uint32(cpu), Flags: 1 /* BPF_F_TEST_RUN_ON_CPU */})
		if err != nil {
			t.Fatal(err)
		}
		after := read(t, c)
		var got struct{ Counter, Enabled, Running uint64 }
		if err := out.Lookup(uint32(0), &got); err != nil {
			t.Fatal(err)
		}
		low, high := before.Rows[i].Raw, after.Rows[i].Raw
		if ret != 0 || got.Counter < low || got.Counter > high || got.Enabled == 0 {
			t.Errorf("%s: the program returned %d and read %+v, read(2) %d before and %d after", e, int32(ret), got, low, high)
		}
	}
}

// readValueProgram calls bpf_perf_event_read_value for the current CPU and keeps
// what it gives.
func readValueProgram(counters, out *ebpf.Map) asm.Instructions {
	const current = int64(0xffffffff) // BPF_F_CURRENT_CPU
	return asm.Instructions{
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, out.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "none"),
		asm.Mov.Reg(asm.R3, asm.R0),
		asm.Mov.Imm(asm.R4, 24),
		asm.LoadMapPtr(asm.R1, counters.FD()),
		asm.LoadImm(asm.R2, current, asm.DWord),
		asm.FnPerfEventReadValue.Call(),
		asm.Return(),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("none"),
		asm.Return(),
	}
}

// TestInheritHardware: instructions of a child are counted.
func TestInheritHardware(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.PMU)
	lockThread(t)
	run := func(calls string) uint64 {
		c := openAll(t, Scope{}, &CountOptions{Inherit: true, EnableOnExec: true}, userOnly(Instructions()), userOnly(Cycles()))
		cmd := testenv.Command(t, "/proc/self/exe").Here()
		cmd.Env = append(os.Environ(), "PMC_CHILD="+calls)
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		v := read(t, c).Totals()
		if v[0].Running == 0 || v[0].Running > v[0].Enabled {
			t.Errorf("%+v", v[0])
		}
		return v[0].Count
	}
	few, many := run("1000"), run("101000")
	per := float64(many-few) / 1e5
	t.Logf("%d and %d instructions: %.2f for each system call", few, many, per)
	if per < 5 || per > 500 {
		t.Errorf("%.1f instructions of user space for a getppid", per)
	}
}
