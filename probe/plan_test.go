package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/golden"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// machines are recorded kernels, by what they lack of a full one.
var machines = []struct {
	name, arch, release string
	without             []feature.Feature
}{
	{"5.10-amd64", "amd64", "5.10.0-32-cloud-amd64", []feature.Feature{
		feature.AttachCookie, feature.PerfLink, feature.KprobeMulti, feature.KprobeSession, feature.UprobeMulti,
		feature.UprobeSession, feature.SyscallProg, feature.RawTracepointCookie, feature.HardwarePMU, feature.GetFuncIP,
		feature.SleepableUprobe,
	}},
	{"6.1-amd64", "amd64", "6.1.0-50-cloud-amd64", []feature.Feature{
		feature.KprobeMulti, feature.KprobeSession, feature.UprobeMulti, feature.UprobeSession, feature.RawTracepointCookie, feature.HardwarePMU,
	}},
	{"6.12-amd64", "amd64", "6.12.107+deb13-cloud-amd64", []feature.Feature{feature.UprobeSession, feature.HardwarePMU}},
	{"7.2-amd64", "amd64", "7.2.0-rc1-cloud-amd64", []feature.Feature{feature.HardwarePMU}},
	{"6.12-arm64", "arm64", "6.12.107+deb13-cloud-arm64", []feature.Feature{
		feature.KprobeMulti, feature.KprobeSession, feature.UprobeSession,
	}},
}

// planned are targets of every kind.
var planned = []string{
	"kprobe:vfs_read", "kprobe:vfs_read+4", "kprobe:sys_getppid", "kprobe:nine", "kprobe:by_value", "kprobe:lookup_fast.isra.0",
	"kprobe:vfs_*", "kprobe:vfs_read,kprobe:do_exit", "kretprobe:vfs_read", "kretprobe:do_exit", "kretprobe:narrow",
	"kretprobe:by_value", "kretprobe:vfs_read maxactive=9", "fentry:vfs_read", "fexit:vfs_read", "fexit:by_value", "fexit:do_exit",
	"lsm:file_open", "tracepoint:sched:sched_switch", "tracepoint:syscalls:sys_enter_openat", "rawtracepoint:sched_switch",
	"uprobe:%s:add", "uprobe:%s:add+3", "uprobe:%s:helper_*", "uprobe:t:add", "uprobe::add pid=77", "uretprobe:%s:add",
	"uprobe:%s:target.c:106", "usdt:%s:target:*", "usdt:%s:guarded", "profile:hz:99", "perf:cpu-clock:hz:49 cpus=0,3", "interval:s:1",
	"software:page-faults:1 pid=77", "watchpoint:0x1000:8:w pid=77", "iter:task", "socket:lo", "begin,end", "begin",
}

// TestPlans: the decisions for recorded machines, as a golden file each.
func TestPlans(t *testing.T) {
	for _, m := range machines {
		t.Run(m.name, func(t *testing.T) {
			root := probetest.Root(t)
			path := "/bin/target"
			if m.arch == "arm64" {
				path = "/bin/arm"
				root["proc/77/exe"] = root["bin/arm"]
				root["lib/aarch64-linux-gnu/libt.so.6"] = root["bin/arm"]
			}
			env := NewEnv(&EnvOptions{Root: root, Arch: m.arch, Release: m.release, Features: probetest.Features(m.without...), BTF: probetest.BTF(t)})
			var b strings.Builder
			for _, text := range planned {
				if strings.Contains(text, "%s") {
					text = fmt.Sprintf(text, path)
				}
				if m.arch == "arm64" {
					text = strings.ReplaceAll(text, "add+3", "add+4")
					text = strings.ReplaceAll(text, "sys_getppid", "vfs_write")
				}
				plan, err := Resolve(env, []Target{mustParse(t, text)}, nil)
				if err != nil {
					t.Errorf("%s: %v", text, err)
					continue
				}
				checkPlan(t, plan)
				fmt.Fprintf(&b, "# %s\n%s\n", text, plan)
			}
			golden.Compare(t, "testdata/plans-"+m.name+".txt", b.String())
		})
	}
}

// checkPlan holds for every plan.
func checkPlan(t *testing.T, p *Plan) {
	t.Helper()
	names := map[string]bool{}
	site := 0
	for i, g := range p.Programs {
		if len(g.Name) > 15 || g.Name == "" || names[g.Name] {
			t.Errorf("bad or repeated name %q", g.Name)
		}
		names[g.Name] = true
		for _, s := range g.Sites {
			if s.Cookie.Site() != site {
				t.Errorf("site %d has the cookie of site %d", site, s.Cookie.Site())
			}
			if n := s.Cookie.Spec(); n != 0 && n >= len(g.Specs) {
				t.Errorf("site %d names spec %d of %d", site, n, len(g.Specs))
			}
			site++
		}
		spec := p.ProgramSpec(i)
		if spec.Name != g.Name || spec.Type != g.Type || spec.AttachType != g.AttachType || len(spec.Instructions) != 0 {
			t.Errorf("program spec %+v of %s", spec, g.Name)
		}
	}
	if p.ProgramSpec(-1) != nil || p.ProgramSpec(len(p.Programs)) != nil {
		t.Error("a program spec of a program that is not there")
	}
}

func TestMissingPolicy(t *testing.T) {
	env := probetest.Env(t)
	set := []Target{Set{Kprobe{Symbol: "vfs_read"}, Kprobe{Symbol: "nosuch"}}}
	if _, err := Resolve(env, set, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want a name that does not exist", err)
	}
	p, err := Resolve(env, set, &Options{Missing: MissingWarn})
	if err != nil || len(p.Programs) != 1 || len(p.Missing) != 1 || p.Missing[0].Target != (Kprobe{Symbol: "nosuch"}) {
		t.Errorf("%v\n%v", err, p)
	}
	p, err = Resolve(env, set, &Options{Missing: MissingIgnore})
	if err != nil || len(p.Programs) != 1 || len(p.Missing) != 0 {
		t.Errorf("%v\n%v", err, p)
	}
	// Nothing is left: the plan was an empty one, and nobody learned why.
	none := []Target{Kprobe{Symbol: "nosuch"}, Tracepoint{Group: "no", Name: "such"}}
	_, err = Resolve(env, none, &Options{Missing: MissingIgnore})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "tracepoint:no:such") {
		t.Errorf("%v, want why the last one is missing", err)
	}
}

func TestCookie(t *testing.T) {
	c := MakeCookie(70000, 65535, 0xbeef)
	if c.Site() != 70000 || c.Spec() != 65535 || c.Tag() != 0xbeef || Cookie(0).Site() != -1 {
		t.Errorf("%#x: %d %d %#x", c, c.Site(), c.Spec(), c.Tag())
	}
	p, err := Resolve(probetest.Env(t), []Target{Begin{}, USDT{Path: "/bin/target", Name: "twice"}}, &Options{Tag: 7})
	if err != nil {
		t.Fatal(err)
	}
	last := p.Programs[1].Sites[1].Cookie
	if last.Site() != 2 || last.Spec() != 1 || last.Tag() != 7 {
		t.Errorf("%d %d %d", last.Site(), last.Spec(), last.Tag())
	}
}

// TestInferred: a recording without features goes by the release.
func TestInferred(t *testing.T) {
	for release, want := range map[string]Method{
		"5.10.0": MethodPerfIoctl, "5.15.0": MethodPerfLink, "6.12.0": MethodPerfLink, "6": MethodPerfLink,
	} {
		env := NewEnv(&EnvOptions{Root: probetest.Root(t), Arch: "amd64", Release: release, BTF: probetest.BTF(t)})
		p, err := Resolve(env, []Target{Tracepoint{Group: "sched", Name: "sched_switch"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Programs[0].Method; got != want {
			t.Errorf("%s: %s, want %s", release, got, want)
		}
	}
}

// TestSession: one program for entry and return, where the kernel has that.
func TestSession(t *testing.T) {
	p, err := Resolve(probetest.Env(t), []Target{Kprobe{Symbol: "vfs_read"}}, &Options{EntryReturn: true})
	if err != nil || p.Programs[0].AttachType != ebpf.AttachTraceKprobeSession {
		t.Errorf("%v\n%v", err, p)
	}
	p, err = Resolve(probetest.Env(t, feature.KprobeSession), []Target{Kprobe{Symbol: "vfs_read"}}, &Options{EntryReturn: true})
	if err != nil || p.Programs[0].Method != MethodPerfLink || !strings.Contains(p.Programs[0].FallbackReason, "CONFIG_EXAMPLE") {
		t.Errorf("%v\n%v", err, p)
	}
	// Of several targets only those that are to be: with what the function returns, at its returns.
	p, err = Resolve(probetest.Env(t), []Target{Kprobe{Symbol: "vfs_write"}, Kprobe{Symbol: "vfs_read"}}, &Options{EntryReturnTargets: []int{1}})
	if err != nil || p.Programs[0].EntryReturn() || p.Programs[0].Ret != nil || !p.Programs[1].EntryReturn() || p.Programs[1].Ret == nil ||
		len(p.Programs[1].Args) == 0 {
		t.Errorf("%v\n%v", err, p)
	}
	p, err = Resolve(probetest.Env(t, feature.KprobeSession), []Target{Kprobe{Symbol: "vfs_read"}}, &Options{EntryReturnTargets: []int{0}})
	if err != nil || p.Programs[0].EntryReturn() || p.Programs[0].Ret != nil {
		t.Errorf("%v\n%v", err, p)
	}
	// A kretprobe was one too, and fired at the entry as well.
	p, err = Resolve(probetest.Env(t), []Target{Kretprobe{Symbol: "vfs_read"}}, &Options{EntryReturn: true})
	if err != nil || p.Programs[0].Method != MethodKprobeMulti || p.Programs[0].AttachType != ebpf.AttachTraceKprobeMulti || !p.Programs[0].Returns {
		t.Errorf("%v\n%v", err, p)
	}
}

// TestSleepable: programs that may sleep, on one link or on several, or a reason
// why they may not.
func TestSleepable(t *testing.T) {
	for _, c := range []struct {
		without []feature.Feature
		method  Method
		flags   uint32
		why     string
	}{
		{nil, MethodUprobeMulti, flagSleepable, ""},
		{[]feature.Feature{feature.UprobeMulti}, MethodPerfLink, flagSleepable, "CONFIG_EXAMPLE"},
		{[]feature.Feature{feature.SleepableUprobe}, MethodPerfLink, 0, "sleepable-uprobe: CONFIG_EXAMPLE"},
	} {
		p, err := Resolve(probetest.Env(t, c.without...), []Target{mustParse(t, "uprobe:/bin/target:add")}, &Options{Sleepable: true})
		if err != nil {
			t.Fatal(err)
		}
		if g := p.Programs[0]; g.Method != c.method || g.Flags != c.flags || !strings.Contains(g.FallbackReason, c.why) {
			t.Errorf("without %v:\n%s", c.without, p)
		}
	}
	for _, text := range []string{"tracepoint:syscalls:sys_enter_openat sleepable", "rawtracepoint:sched_switch sleepable"} {
		p, err := Resolve(probetest.Env(t), []Target{mustParse(t, text)}, nil)
		if err != nil || p.Programs[0].Flags != flagSleepable {
			t.Errorf("%s: %v\n%s", text, err, p)
		}
		if _, err := Resolve(probetest.Env(t, feature.SleepableTracepoint), []Target{mustParse(t, text)}, nil); !isUnsupportedErr(err) {
			t.Errorf("%s: %v, want that it is not supported", text, err)
		}
	}
}

// TestFallback: fentry as a kprobe, where the caller allows that.
func TestFallback(t *testing.T) {
	targets := []Target{Fentry{Symbol: "vfs_read"}, Fexit{Symbol: "vfs_read"}}
	env := probetest.Env(t, feature.Fentry, feature.Fexit)
	if _, err := Resolve(env, targets, nil); !isUnsupportedErr(err) {
		t.Errorf("without leave: %v", err)
	}
	p, err := Resolve(env, targets, &Options{Fallback: true})
	if err != nil {
		t.Fatal(err)
	}
	a, b := p.Programs[0], p.Programs[1]
	if a.Type != ebpf.Kprobe || a.Returns || len(a.Args) != 4 || a.FallbackReason != "fentry:vfs_read: CONFIG_EXAMPLE is not set" {
		t.Errorf("entry:\n%s", p)
	}
	if b.Type != ebpf.Kprobe || !b.Returns || b.Ret == nil || len(b.Args) != 0 {
		t.Errorf("return:\n%s", p)
	}
	p, err = Resolve(probetest.Env(t), targets, &Options{Fallback: true})
	if err != nil || p.Programs[0].Type != ebpf.Tracing {
		t.Errorf("needless: %v\n%s", err, p)
	}
}

// TestDistinct: what is named twice is attached once.
func TestDistinct(t *testing.T) {
	for _, text := range []string{
		"kprobe:vfs_read,kprobe:vfs_read", "kprobe:vfs_read,kprobe:vfs_r*", "tracepoint:sched:sched_switch,tracepoint:sched:*",
		"uprobe:/bin/target:add,uprobe:/bin/target:ad*", "rawtracepoint:sched_switch,rawtracepoint:sched_switch",
	} {
		for _, o := range []*Options{{}, {NoMulti: true}} {
			p, err := Resolve(probetest.Env(t), []Target{mustParse(t, text)}, o)
			if err != nil {
				t.Errorf("%s: %v", text, err)
			} else if len(p.Programs) != 1 || len(p.Programs[0].Sites) != 1 {
				t.Errorf("%s:\n%s", text, p)
			}
		}
	}
}
