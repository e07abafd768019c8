package probe

import (
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// BenchmarkStart is the time from nothing to attached, without loading: what a
// tool's start-up pays this package. It includes closing.
func BenchmarkStart(b *testing.B) {
	testenv.Need(b, testenv.Root, testenv.Perf)
	libc, err := userfile.FindByName(NewEnv(nil), "libc.so.6", 0)
	testenv.Need(b, testenv.Got("libc", err))
	own := filepath.Join(b.TempDir(), "libc.so.6") // which nobody else has mapped
	copyFile(b, own, libc)
	for _, c := range []struct {
		name, target string
		o            *Options
	}{
		{"profile", "profile:hz:99", nil},
		{"rawtracepoint", "rawtracepoint:sys_enter", &Options{NoTypes: true}},
		{"tracepoint", "tracepoint:sched:sched_switch", nil},
		{"uprobe", "uprobe:" + own + ":malloc", nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			n := loadCounter(b, mustResolve(b, c.o, c.target), probetest.Counting{Value: -1})
			target := []Target{mustParse(b, c.target)}
			b.ResetTimer()
			for b.Loop() {
				plan, err := Resolve(NewEnv(nil), target, c.o)
				if err != nil {
					b.Fatal(err)
				}
				l, err := plan.Attach(n.progs, nil)
				if err != nil {
					b.Fatal(err)
				}
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
