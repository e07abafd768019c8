package probe

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/internal/testenv"
)

// coldFunctions are the traceable kernel functions without those that the tracing
// itself runs through (a guest on an emulator is slow enough), and without those whose
// name others have as well.
var coldFunctions = sync.OnceValues(func() ([]Target, error) {
	list, err := thisMachine().Traceable()
	if err != nil {
		return nil, err
	}
	kallsyms, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	named := map[string]int{}
	for line := range strings.Lines(string(kallsyms)) {
		if f := strings.Fields(line); len(f) >= 3 {
			named[f[2]]++
		}
	}
	var out []Target
	for _, s := range list.Functions {
		if !isHot(s.Name) && named[s.Name] == 1 && s.Module == "" {
			out = append(out, Kprobe{Symbol: s.Name})
		}
	}
	return out, nil
})

// manyFunctions returns n of them.
func manyFunctions(t testing.TB, n int) []Target {
	t.Helper()
	all, err := coldFunctions()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < n {
		t.Fatalf("only %d functions", len(all))
	}
	return slices.Clone(all[:n])
}

// isHot tells functions that the tracing itself runs through.
func isHot(name string) bool {
	for _, w := range []string{"rcu", "lock", "bpf", "trace", "probe", "nmi", "sched", "irq", "timer", "clock", "preempt"} {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// emptyProgram returns 0.
func emptyProgram(t testing.TB, at ebpf.AttachType) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Kprobe, AttachType: at, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// bulk attaches to n functions, detaches, and says how long both took.
func bulk(t testing.TB, n int, o *Options) (attach, detach time.Duration, sites int) {
	t.Helper()
	targets := manyFunctions(t, n)
	prog := emptyProgram(t, o.AttachType)
	t0 := time.Now()
	l, err := Attach(prog, Set(targets), o)
	if err != nil {
		t.Fatal(err)
	}
	attach = time.Since(t0)
	sites = len(l.Sites())
	for _, m := range l.Missing()[:min(3, len(l.Missing()))] {
		t.Logf("missing %s: %v", m.Target, m.Err)
	}
	t0 = time.Now()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return attach, time.Since(t0), sites
}

// TestBulkMulti: 10,000 functions in one link.
func TestBulkMulti(t *testing.T) {
	testenv.Need(t, testenv.Guest, testenv.Root, testenv.KprobeMulti, testenv.Tracefs)
	const n = 10000
	attach, detach, sites := bulk(t, n, &Options{AttachType: ebpf.AttachTraceKprobeMulti, Missing: MissingWarn})
	t.Logf("%d of %d functions: attached in %v, detached in %v", sites, n, attach, detach)
	if sites < n*99/100 {
		t.Errorf("only %d of %d attached", sites, n)
	}
}

// TestBulkSingles: the same by one perf event each, where there is no multi link.
// Each costs an emulated machine a few tenths of a second: so there are few.
func TestBulkSingles(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes, testenv.Tracefs)
	const n = 40
	attach, detach, sites := bulk(t, n, &Options{Missing: MissingWarn})
	t.Logf("%d of %d functions: attached in %v, detached in %v", sites, n, attach, detach)
	if sites < n*9/10 {
		t.Errorf("only %d of %d attached", sites, n)
	}
}

// TestBlacklistedClones: the kernel refuses kprobes on what the compiler made of a function
// that is on its blacklist, so such functions are not listed. pci_serr_error.part.0 was.
func TestBlacklistedClones(t *testing.T) {
	testenv.Need(t, testenv.Guest, testenv.Root, testenv.Kprobes, testenv.Tracefs)
	patchable, err := thisMachine().Patchable()
	if err != nil {
		t.Fatal(err)
	}
	listed, err := thisMachine().Traceable()
	if err != nil {
		t.Fatal(err)
	}
	b := kallsyms.ReadBlacklist(thisMachine().Root())
	if len(b) == 0 {
		t.Fatal("no blacklist: debugfs is not mounted")
	}
	clones := 0
	for _, s := range patchable.Functions {
		if !b.Has(s.Name) || b[s.Name] {
			continue
		}
		clones++
		l, err := Attach(emptyProgram(t, ebpf.AttachNone), Kprobe{Symbol: s.Name}, nil)
		if err == nil || !strings.Contains(err.Error(), "blacklist") {
			t.Errorf("%s: %v", s.Name, err)
		}
		l.Close()
		if slices.ContainsFunc(listed.Functions, func(l kallsyms.Symbol) bool { return l.Name == s.Name }) {
			t.Errorf("%s is listed", s.Name)
		}
	}
	t.Logf("%d clones", clones)
}
