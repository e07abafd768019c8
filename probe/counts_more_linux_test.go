package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/insn"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/kernelcode"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/internal/usercode"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// TestKprobeOffset: at an instruction inside a function, and by its address.
func TestKprobeOffset(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes)
	w := probetest.Start(t)
	env := NewEnv(nil)
	syms, err := env.KernelSymbols("", "ksys_write")
	if err != nil || len(syms) != 1 {
		t.Fatalf("%v, %v", syms, err)
	}
	text, err := kernelcode.Text(env.Root(), syms[0].Address, 64)
	if err != nil {
		t.Fatal(err)
	}
	// The first instruction behind those that ftrace and CET keep at the entry.
	var offset uint64
	for offset < 12 {
		in, err := insn.Decode(usercode.Machine(env.Arch()), text[offset:])
		if err != nil {
			t.Fatal(err)
		}
		offset += uint64(in.Len)
	}
	for _, target := range []string{
		fmt.Sprintf("kprobe:ksys_write+%d", offset), fmt.Sprintf("kprobe:%#x", syms[0].Address+offset),
	} {
		t.Run(target, func(t *testing.T) {
			plan := mustResolve(t, nil, target)
			for _, a := range plan.Programs[0].Args {
				if a.Loc.Reason == "" {
					t.Errorf("%s offers %s", target, a)
				}
			}
			n, _ := attachCounter(t, plan, probetest.Counting{PID: w.PID(), Value: -1})
			w.Run()
			probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 1})
		})
	}
	if env.Arch() == "amd64" {
		in, _ := insn.Decode(usercode.Machine("amd64"), text)
		if in.Len > 1 {
			_, err := Resolve(env, []Target{Kprobe{Symbol: "ksys_write", Offset: uint64(in.Len) - 1}}, nil)
			if err == nil {
				t.Error("an offset within an instruction is accepted")
			}
		}
	}
}

func TestUprobeAddress(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.Start(t)
	n, _ := attachCounter(t, mustResolve(t, nil, fmt.Sprintf("uprobe:%s:%#x", probetest.TargetPath(), symbolValue(t, "helper_one"))), probetest.Counting{Value: probetest.ArgOffset()})
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times, Sum: sumTo})
}

// TestFentryBPF: a probe at the entry of another BPF program.
func TestFentryBPF(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Fentry)
	w := probetest.Start(t)
	plan := mustResolve(t, &Options{NoTypes: true}, "rawtracepoint:sys_enter")
	spec := plan.ProgramSpec(0)
	spec.License = "GPL"
	// A function of its own name and type, which a trampoline needs.
	spec.Instructions = asm.Instructions{
		asm.Mov.Imm(asm.R0, 0).WithSymbol("entry"), asm.Return(),
	}
	spec.Instructions[0] = withFunc(spec.Instructions[0])
	prog, err := ebpf.NewProgram(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	outer, err := plan.Attach(map[string]*ebpf.Program{spec.Name: prog}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer outer.Close()
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	inner := mustResolve(t, nil, fmt.Sprintf("fentry:bpf:%d:entry", id))
	if inner.Programs[0].AttachTarget != uint32(id) {
		t.Fatalf("no target program:\n%s", inner)
	}
	n := loadCounterOn(t, inner, probetest.Counting{PID: w.PID(), Value: -1}, prog)
	l, err := inner.Attach(n.progs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.Run()
	if got := n.read(t, 0).Count; got < probetest.Times {
		t.Errorf("%d runs seen, want at least %d", got, probetest.Times)
	}
}

// TestSymbolVersion: a function of glibc that has two versions.
func TestSymbolVersion(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	path, err := userfile.FindByName(NewEnv(nil), "libc.so.6", 0)
	testenv.Need(t, testenv.Got("libc", err))
	found := map[string][]userfile.Symbol{}
	err = userfile.WithELF(NewEnv(nil), userfile.Sources{}, path, func(f *elffile.File) error {
		return userfile.Symbols(t.Context(), f, func([]byte) bool { return true }, func(s userfile.Symbol) error {
			if s.Version != "" {
				found[s.Name] = append(found[s.Name], s)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range found {
		if len(list) != 2 || list[0].Value == list[1].Value || list[0].Version == list[1].Version || list[0].Ifunc || list[1].Ifunc {
			continue
		}
		for _, s := range list {
			plan, err := Resolve(nil, []Target{Uprobe{Path: path, Symbol: name + "@" + s.Version}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.Programs[0].Sites[0].Address; got != s.Value {
				t.Errorf("%s@%s is at %#x, want %#x", name, s.Version, got, s.Value)
			}
		}
		if _, err := Resolve(nil, []Target{Uprobe{Path: path, Symbol: name + "@NOSUCH_1.0"}}, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a version that does not exist: %v", err)
		}
		return
	}
	testenv.Need(t, testenv.Missing("libc", "it has no function of two versions"))
}

// TestDemangled: C++ functions by demangled names, overloads and templates.
func TestDemangled(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.Tool("g++"))
	dir := t.TempDir()
	src := `namespace ns { struct T { int v; T operator+(const T &o) const __attribute__((noinline)) { return T{v + o.v}; } };
int f(int a) __attribute__((noinline)); int f(int a) { return a; } int f(int a, char b) __attribute__((noinline)); int f(int a, char b) { return a + b; } }
int main() { ns::T a{1}, b{2}; return ns::f((a + b).v) + ns::f(1, 'x'); }`
	if err := os.WriteFile(filepath.Join(dir, "a.cc"), []byte(src), 0o644); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "a")
	if out, err := testenv.Command(t, "g++", "-O0", "-o", bin, bin+".cc").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for text, want := range map[string]int{
		"uprobe:" + bin + ":cpp:ns::f(int)": 1, "uprobe:" + bin + `:cpp:"ns::f(int, char)"`: 1, "uprobe:" + bin + ":cpp:ns::f": 2,
		"uprobe:" + bin + ":cpp:ns::*": 3, "uprobe:" + bin + `:cpp:"ns::T::operator+(ns::T const&) const"`: 1, "uprobe:" + bin + ":_ZN2ns1fEi": 1,
	} {
		plan := mustResolve(t, nil, text)
		sites := 0
		for _, p := range plan.Programs {
			sites += len(p.Sites)
		}
		if sites != want {
			t.Errorf("%s: %d sites, want %d:\n%s", text, sites, want, plan)
		}
	}
	n, _ := attachCounter(t, mustResolve(t, nil, "uprobe:"+bin+":cpp:ns::f"), probetest.Counting{Value: -1})
	testenv.Command(t, bin).Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 2})
}

// TestRawCookie and TestPerfCookie: programs find the site in the cookie, which
// cilium's link package can't give to these two.
func TestRawCookie(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.RawTracepointCookie))
	w := probetest.Start(t)
	plan := mustResolve(t, &Options{NoTypes: true}, "rawtracepoint:sys_enter,rawtracepoint:sys_exit")
	if len(plan.Programs) != 1 {
		t.Fatalf("two raw tracepoints make\n%s", plan)
	}
	n, _ := attachCounter(t, plan, probetest.Counting{PID: w.PID(), Value: -1, Sites: true})
	w.Run()
	if a, b := n.read(t, 0).Count, n.read(t, 1).Count; a < probetest.Times || b < probetest.Times || a > b+2 || b > a+2 {
		t.Errorf("%d entries, %d exits", a, b)
	}
}

func TestPerfCookie(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.AttachCookie), testenv.Perf)
	plan := mustResolve(t, nil, "perf:cpu-clock:hz:500")
	n, l := attachCounter(t, plan, probetest.Counting{Value: -1, Sites: true})
	var busy sync.WaitGroup
	for _, site := range l.Sites() {
		busy.Go(func() { spinOn(t, site.CPU, 300*time.Millisecond) })
	}
	busy.Wait()
	for i := range l.Sites() {
		if n.read(t, i).Count == 0 {
			t.Errorf("no sample with the cookie of site %d", i)
		}
	}
}

// spinOn keeps a CPU busy: some hypervisors park an idle one, whose clocks, perf's own
// among them, do not fire then.
func spinOn(t *testing.T, cpu int, d time.Duration) {
	runtime.LockOSThread() // for ever: the thread ends with the goroutine
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Error(err)
	}
	for start := time.Now(); time.Since(start) < d; {
	}
}

func TestPerfCgroup(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	plan := mustResolve(t, nil, "perf:cpu-clock:hz:500 cgroup=/")
	n := loadCounter(t, plan, probetest.Counting{Value: -1})
	l, err := plan.Attach(n.progs, nil)
	testenv.Need(t, testenv.Got("perf events of a cgroup", err))
	defer l.Close()
	end := time.Now().Add(200 * time.Millisecond)
	for time.Now().Before(end) {
	}
	if n.read(t, 0).Count == 0 {
		t.Error("no sample in the root cgroup")
	}
	bad := mustResolve(t, nil, "perf:cpu-clock:hz:500 cgroup=/no/such")
	if _, err := bad.Attach(loadCounter(t, bad, probetest.Counting{Value: -1}).progs, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cgroup that does not exist: %v", err)
	}
}

// TestPreciseMax: the modifier P takes what precision there is: none here.
func TestPreciseMax(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	n, _ := attachCounter(t, mustResolve(t, nil, `perf:"cpu-clock:P":hz:500`), probetest.Counting{Value: -1})
	time.Sleep(200 * time.Millisecond)
	if n.read(t, 0).Count == 0 {
		t.Error("no sample")
	}
}

// TestHardwareSamples: cycles where there is a PMU.
func TestHardwareSamples(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.PMU)
	plan := mustResolve(t, nil, "hardware:cycles:100000")
	n, _ := attachCounter(t, plan, probetest.Counting{Value: -1})
	x := 0
	for i := range 20_000_000 {
		x += i
	}
	if got := n.read(t, 0).Count; got == 0 {
		t.Errorf("no sample of cycles (%d)", x)
	}
	p := mustResolve(t, nil, "profile:hz:99")
	if got := p.Programs[0].Sites[0].Target.String(); got != "perf:cycles:hz:99 cpus=" && p.Programs[0].FallbackReason != "" {
		t.Errorf("profile takes %s because %s", got, p.Programs[0].FallbackReason)
	}
}

// TestPin: probes that outlive their Link, taken up again, and removed.
func TestPin(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.Mounts, testenv.Feature(feature.PerfLink))
	w := probetest.Start(t)
	plan := mustResolve(t, nil, "uprobe:"+probetest.TargetPath()+":add")
	n := loadCounter(t, plan, probetest.Counting{Value: -1})
	l, err := plan.Attach(n.progs, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(testenv.BPFFSDir(t), "pinned")
	if err := l.Pin(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Unpin(dir) })
	if err := l.Pin(dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("pinned twice: %v", err)
	}
	l.Close()
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times})
	again, err := OpenPinned(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Stats(); err != nil {
		t.Error(err)
	}
	if err := Unpin(dir); err != nil {
		t.Fatal(err)
	}
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 2 * probetest.Times})
	again.Close()
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 2 * probetest.Times})
	if _, err := OpenPinned(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("unpinned: %v", err)
	}
}
