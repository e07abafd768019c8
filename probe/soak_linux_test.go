package probe

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/tracefs"
)

// soakLength is how long TestSoak and TestSoakCounts take: PROBE_SOAK, as in
// PROBE_SOAK=30m; one second without. What takes more than a few is for guests:
//
//	go run ./internal/vmtest -kernel 7.2 -env PROBE_SOAK=30m -timeout 2h -run '^TestSoak' ./probe
func soakLength(t testing.TB) time.Duration {
	t.Helper()
	s := os.Getenv("PROBE_SOAK")
	if s == "" {
		return time.Second
	}
	length, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	if length > 3*time.Second {
		testenv.Need(t, testenv.Guest)
	}
	return length
}

// soaker attaches random targets under load.
type soaker struct {
	t      *testing.T
	w      *workload // is asked by turns, and counted exactly
	rnd    *rand.Rand
	steps  []soakStep
	env    *Env
	rounds map[string]int
	bpffs  string // where to deploy
	// functions are what randomKprobes chooses from.
	functions []Target
}

type soakStep struct {
	name string
	run  func(*soaker)
}

// TestSoakCounts loads, attaches, counts exactly and detaches random targets of
// all kinds that this kernel has, shares and deploys them, on a busy machine,
// and leaves nothing behind: descriptors, links, tracefs events, memory.
func TestSoakCounts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Uprobes, testenv.Tracefs)
	length := soakLength(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := &soaker{t: t, w: startTarget(t), rnd: rand.New(rand.NewPCG(seed, 1)), env: thisMachine(), rounds: map[string]int{}}
	s.choose()
	busy := startTarget(t) // is probed by whatever has no pid
	stop := busy.keepBusy()
	defer stop()
	for _, step := range s.steps { // each once, so that what is opened for good is open
		t.Logf("kind: %s", step.name)
		step.run(s)
	}
	fds, heap := openFiles(t), heapInUse()
	t.Logf("at the beginning: %d descriptors, %d KiB of heap; kernel: %s", fds, heap>>10, kernelMemory())
	end := time.Now().Add(length)
	for rounds := 0; time.Now().Before(end) && !t.Failed(); rounds++ {
		step := s.steps[s.rnd.IntN(len(s.steps))]
		step.run(s)
		s.rounds[step.name]++
	}
	t.Logf("rounds: %v", s.rounds)
	fdsNow, heapNow := openFiles(t), heapInUse()
	t.Logf("at the end: %d descriptors, %d KiB of heap; kernel: %s", fdsNow, heapNow>>10, kernelMemory())
	if fdsNow > fds {
		t.Errorf("%d descriptors, %d at the beginning", fdsNow, fds)
	}
	if heapNow > heap+16<<20 {
		t.Errorf("%d bytes of heap, %d at the beginning", heapNow, heap)
	}
	expectNoTracefsEvents(t)
}

// choose lists the steps that this kernel can do.
func (s *soaker) choose() {
	add := func(f feature.Feature, name string, run func(*soaker)) {
		if feature.Test(f) == nil {
			s.steps = append(s.steps, soakStep{name, run})
		}
	}
	path := targetPath()
	for _, c := range []struct {
		f      feature.Feature
		target string
		want   uint64 // 0: not counted
	}{
		{feature.Uprobe, "uprobe:" + path + ":add", times},
		{feature.Uprobe, "uretprobe:" + path + ":add", times},
		{feature.Uprobe, "uprobe:" + path + ":helper_*", 2 * times},
		{feature.Uprobe, "usdt:" + path + ":target:twice", 2 * times},
		{feature.Tracepoint, "tracepoint:syscalls:sys_enter_write", 0},
		{feature.RawTracepoint, "rawtracepoint:sys_enter", 0},
		{feature.Perf, "profile:hz:99", 0},
		{feature.Kprobe, "kprobe:ksys_write", 0},
		{feature.Kprobe, "kretprobe:ksys_write", 0},
		{feature.Kprobe, "kretprobe:ksys_write maxactive=7", 0},
		{feature.Fentry, "fentry:ksys_write", 0},
	} {
		add(c.f, c.target, func(s *soaker) { s.attach(c.target, c.want) })
	}
	// Where there are no multi links each is a breakpoint of its own, which in an
	// emulated guest took minutes; TestBulkSingles does that once.
	add(feature.KprobeMulti, "random kprobes", (*soaker).randomKprobes)
	add(feature.Uprobe, "share", (*soaker).share)
	if feature.Test(feature.PerfLink) == nil && feature.Test(feature.Uprobe) == nil {
		s.bpffs = testenv.BPFFSDir(s.t)
		s.steps = append(s.steps, soakStep{"deploy", (*soaker).deploy})
	}
}

// attach attaches one target, counts the workload and detaches.
func (s *soaker) attach(text string, want uint64) {
	t := s.t
	target := mustParse(t, text)
	plan, err := Resolve(s.env, []Target{target}, &Options{NoTypes: true})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	s.counted(plan, want)
}

// counted carries a plan out with programs that are closed at once after it.
func (s *soaker) counted(plan *Plan, want uint64) {
	t := s.t
	sub := &collector{TB: t}
	defer sub.cleanup()
	n := loadCounter(sub, plan, counting{pid: s.w.pid(), value: -1})
	l, err := plan.Attach(n.progs, &AttachOptions{Missing: MissingWarn, Env: s.env})
	if errors.Is(err, syscall.EBUSY) {
		t.Logf("attached by ftrace: %s", enabledFunctions(t))
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, plan)
	}
	ids := linkIDs(t, l)
	s.w.run()
	got := n.read(t, 0).Count
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if want != 0 && got != want {
		t.Errorf("%s: counted %d, want %d", plan.Programs[0].first(), got, want)
	}
	for _, id := range ids {
		expectGone(t, id)
	}
}

// enabledFunctions lists what ftrace has attached to functions, trampolines of
// tracing programs among it (CONFIG_DYNAMIC_FTRACE, kernel/trace/ftrace.c t_show).
func enabledFunctions(t testing.TB) string {
	b, err := os.ReadFile(testenv.TracefsDir(t) + "/enabled_functions")
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// collector runs what a helper registers for the end of a test when a round ends.
type collector struct {
	testing.TB
	list []func()
}

func (c *collector) Cleanup(f func()) { c.list = append(c.list, f) }

func (c *collector) cleanup() {
	for i := len(c.list) - 1; i >= 0; i-- {
		c.list[i]()
	}
}

// randomKprobes attaches to some functions of many, none of which tracing itself
// runs through: an emulated guest is slow enough.
func (s *soaker) randomKprobes() {
	if s.functions == nil {
		s.functions = manyFunctions(s.t, 300)
	}
	var set Set
	for range 1 + s.rnd.IntN(20) {
		set = append(set, s.functions[s.rnd.IntN(len(s.functions))])
	}
	plan, err := Resolve(s.env, []Target{set}, &Options{NoTypes: true, Missing: MissingWarn})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(plan.Programs) > 0 {
		s.counted(plan, 0)
	}
}

// share has users come and go.
func (s *soaker) share() {
	t := s.t
	sub := &collector{TB: t}
	defer sub.cleanup()
	plan, err := Resolve(s.env, []Target{Uprobe{Path: targetPath(), Symbol: "add"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := plan.Share(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	m := loadCounter(sub, plan, counting{value: -1}).m
	for range 1 + s.rnd.IntN(MaxShares) {
		u, err := shared.Join(userSpec(plan, counting{value: -1}, m), &ShareOptions{EventsPerSecond: s.rnd.Uint64N(100)})
		if err != nil {
			t.Fatal(err)
		}
		sub.Cleanup(func() { u.Close() })
		if s.rnd.IntN(2) == 0 {
			u.Close()
		}
	}
	s.w.run()
}

// deploy deploys, upgrades and removes.
func (s *soaker) deploy() {
	t := s.t
	dir := filepath.Join(s.bpffs, "deployed")
	plan, err := Resolve(s.env, []Target{Uprobe{Path: targetPath(), Symbol: "add"}}, &Options{Filter: &Filter{PIDs: []int{s.w.pid()}}})
	if err != nil {
		t.Fatal(err)
	}
	for v := range 3 {
		spec := deploySpec(plan, v)
		if err := plan.ApplyFilter(spec); err != nil {
			t.Fatal(err)
		}
		for _, p := range spec.Programs {
			p.Instructions = ownIDs(p.Instructions)
		}
		d, err := Deploy(dir, plan, spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.w.run()
		expectTally(t, (&counter{m: d.Map("hits")}).read(t, v), tally{Count: times})
		d.Close()
	}
	if err := RemoveDeployment(dir); err != nil {
		t.Fatal(err)
	}
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers let go
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// kernelMemory is what the kernel has taken for itself. Others take some too: it is
// logged, to be compared over a long run on a machine of its own.
func kernelMemory() string {
	b, _ := os.ReadFile("/proc/meminfo")
	var out []string
	for line := range strings.Lines(string(b)) {
		if name, _, _ := strings.Cut(line, ":"); name == "SUnreclaim" || name == "VmallocUsed" || name == "Percpu" {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(out, ", ")
}

// expectNoTracefsEvents checks that this process has no events of its own left.
func expectNoTracefsEvents(t *testing.T) {
	t.Helper()
	dir := testenv.TracefsDir(t)
	for _, name := range []string{"kprobe_events", "uprobe_events"} {
		b, err := os.ReadFile(dir + "/" + name)
		if err != nil {
			continue // there are no such events in this kernel
		}
		if own := fmt.Sprintf(":%s/p%d_", tracefs.Group, os.Getpid()); strings.Contains(string(b), own) {
			t.Errorf("%s holds\n%s", name, b)
		}
	}
}
