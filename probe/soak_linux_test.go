package probe

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// soaker attaches random targets under load.
type soaker struct {
	*probetest.Soak
	// functions are what randomKprobes chooses from.
	functions []Target
}

// TestSoakCounts loads, attaches, counts exactly and detaches random targets of
// all kinds that this kernel has, on a busy machine, and leaves nothing behind:
// descriptors, links, tracefs events, memory.
func TestSoakCounts(t *testing.T) {
	testenv.Need(t, testenv.Long)
	s := &soaker{Soak: probetest.NewSoak(t)}
	path := s.W.Path()
	for _, c := range []struct {
		f      feature.Feature
		target string
		want   uint64 // 0: not counted
	}{
		{feature.Uprobe, "uprobe:" + path + ":add", probetest.Times},
		{feature.Uprobe, "uretprobe:" + path + ":add", probetest.Times},
		{feature.Uprobe, "uprobe:" + path + ":helper_*", 2 * probetest.Times},
		{feature.Uprobe, "usdt:" + path + ":target:twice", 2 * probetest.Times},
		{feature.Tracepoint, "tracepoint:syscalls:sys_enter_write", 0},
		{feature.RawTracepoint, "rawtracepoint:sys_enter", 0},
		{feature.Perf, "profile:hz:99", 0},
		{feature.Kprobe, "kprobe:ksys_write", 0},
		{feature.Kprobe, "kretprobe:ksys_write", 0},
		{feature.Kprobe, "kretprobe:ksys_write maxactive=7", 0},
		{feature.Fentry, "fentry:ksys_write", 0},
	} {
		s.Add(c.target, func() { s.attach(c.target, c.want) }, c.f)
	}
	// Where there are no multi links each is a breakpoint of its own, which in an
	// emulated guest took minutes; TestBulkSingles does that once.
	s.Add("random kprobes", s.randomKprobes, feature.KprobeMulti)
	s.Run()
}

// attach attaches one target, counts the workload and detaches.
func (s *soaker) attach(text string, want uint64) {
	t := s.T
	target := mustParse(t, text)
	plan, err := Resolve(thisMachine(), []Target{target}, &Options{NoTypes: true})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	s.counted(plan, want)
}

// counted carries a plan out with programs that are closed at once after it.
func (s *soaker) counted(plan *Plan, want uint64) {
	t := s.T
	sub := &collector{TB: t}
	defer sub.cleanup()
	n := loadCounter(sub, plan, probetest.Counting{PID: s.W.PID(), Value: -1})
	l, err := plan.Attach(n.progs, &AttachOptions{Missing: MissingWarn, Env: thisMachine()})
	if errors.Is(err, syscall.EBUSY) {
		t.Logf("attached by ftrace: %s", enabledFunctions(t))
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, plan)
	}
	ids := linkIDs(t, l)
	s.W.Run()
	got := n.read(t, 0).Count
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if want != 0 && got != want {
		t.Errorf("%s: counted %d, want %d", plan.Programs[0].Place(), got, want)
	}
	for _, id := range ids {
		probetest.ExpectGone(t, id)
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
		s.functions = manyFunctions(s.T, 300)
	}
	var set Set
	for range 1 + s.Rnd.IntN(20) {
		set = append(set, s.functions[s.Rnd.IntN(len(s.functions))])
	}
	plan, err := Resolve(thisMachine(), []Target{set}, &Options{NoTypes: true, Missing: MissingWarn})
	if err != nil {
		s.T.Fatal(err)
	}
	if len(plan.Programs) > 0 {
		s.counted(plan, 0)
	}
}
