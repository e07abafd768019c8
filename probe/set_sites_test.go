package probe

import (
	"slices"
	"testing"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestApart: where a kernel has no cookies, sites that have to be told apart have
// a program each; where it has, they share one.
func TestApart(t *testing.T) {
	for _, m := range machines[:3] {
		env := NewEnv(&EnvOptions{Root: probetest.Root(t), Arch: m.arch, Release: m.release, Features: probetest.Features(m.without...), BTF: probetest.BTF(t)})
		for text, cookies := range map[string]feature.Feature{
			"kprobe:vfs_read,kprobe:do_exit":                              feature.AttachCookie,
			"rawtracepoint:sched_switch,rawtracepoint:sched_process_exit": feature.RawTracepointCookie,
		} {
			for _, apart := range []bool{false, true} {
				plan, err := Resolve(env, []Target{mustParse(t, text)}, &Options{NoTypes: true, ProgramPerSite: apart})
				if err != nil {
					t.Fatalf("%s %s: %v", m.name, text, err)
				}
				want := 1
				if apart && slices.Contains(m.without, cookies) {
					want = 2
				}
				if len(plan.Programs) != want {
					t.Errorf("%s %s apart %v: %d programs, want %d", m.name, text, apart, len(plan.Programs), want)
				}
			}
		}
	}
}

// TestNamedTwice: what a Set names twice is one place, also where each place has a
// program of its own.
func TestNamedTwice(t *testing.T) {
	places := func(env *Env, text string, apart bool) (n int) {
		t.Helper()
		plan, err := Resolve(env, []Target{mustParse(t, text)}, &Options{ProgramPerSite: apart})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, p := range plan.Programs {
			if len(p.Sites) == 0 {
				t.Errorf("%s: program %s has no place left", text, p.Name)
			}
			n += len(p.Sites)
		}
		return n
	}
	for _, m := range machines {
		root := probetest.Root(t)
		if m.arch == "arm64" {
			root["bin/target"] = root["bin/arm"]
		}
		env := NewEnv(&EnvOptions{Root: root, Arch: m.arch, Release: m.release, Features: probetest.Features(m.without...), BTF: probetest.BTF(t)})
		for _, apart := range []bool{false, true} {
			for _, one := range []string{
				"kprobe:vfs_read", "kretprobe:vfs_read", "fentry:vfs_read", "fexit:vfs_read", "lsm:file_open", "tracepoint:sched:sched_switch",
				"rawtracepoint:sched_switch", "uprobe:/bin/target:add", "uretprobe:/bin/target:add", "usdt:/bin/target:target:*",
				"profile:hz:99", "interval:s:1", "iter:task",
			} {
				want := places(env, one, apart)
				if got := places(env, one+","+one, apart); got != want {
					t.Errorf("%s apart %v: %s named twice has %d places, once %d", m.name, apart, one, got, want)
				}
			}
			for text, want := range map[string]int{
				"fentry:vfs_read,fexit:vfs_read":    2,
				"fentry:vfs_read,kprobe:vfs_read":   2,
				"kprobe:vfs_*,kprobe:vfs_read":      places(env, "kprobe:vfs_*", apart),
				"kprobe:vfs_read,kprobe:vfs_*":      places(env, "kprobe:vfs_*", apart),
				"kprobe:vfs_read,kprobe:vfs_read+4": 2,
			} {
				if got := places(env, text, apart); got != want {
					t.Errorf("%s apart %v: %s has %d places, want %d", m.name, apart, text, got, want)
				}
			}
		}
	}
}
