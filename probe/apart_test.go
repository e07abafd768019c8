package probe

import (
	"slices"
	"testing"

	"github.com/borescope/borescope/internal/feature"
)

// TestApart: where a kernel has no cookies, sites that have to be told apart have
// a program each; where it has, they share one.
func TestApart(t *testing.T) {
	for _, m := range machines[:3] {
		env := NewEnv(&EnvOptions{Root: testRoot(t), Arch: m.arch, Release: m.release, Features: all(m.without...), BTF: testBTF(t)})
		for text, cookies := range map[string]feature.Feature{
			"kprobe:vfs_read,kprobe:do_exit":                              feature.AttachCookie,
			"rawtracepoint:sched_switch,rawtracepoint:sched_process_exit": feature.RawTracepointCookie,
		} {
			for _, apart := range []bool{false, true} {
				plan, err := Resolve(env, []Target{mustParse(t, text)}, &Options{NoTypes: true, Apart: apart})
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
