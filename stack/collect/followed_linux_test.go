package collect_test

import (
	"slices"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/internal/stacktest"
	"github.com/borescope/borescope/stack/profile"
)

// TestExecuted: a program executes another one of its name and ends. Both are named and walked, though
// nobody announces a new name and nothing can be read any more in the end.
func TestExecuted(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	p := profiler(t, attach(t, probe.Perf{Freq: 999}, &collect.Options{NoKernel: true}))
	pid := stacktest.StartAgain(t)
	time.Sleep(100 * time.Millisecond)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		prof, err := p.Profile()
		if err != nil {
			t.Fatal(err)
		}
		var all, whole int64
		in := map[string]int64{}
		for _, s := range prof.Samples {
			if s.PID != pid || len(s.Frames) == 0 {
				continue
			}
			all += s.Values[0]
			if s.Stopped == stack.StopBottom {
				whole += s.Values[0]
			}
			for _, fn := range []string{"first", "second"} {
				if slices.ContainsFunc(s.Frames, func(f *profile.NamedFrame) bool {
					return len(f.Functions) > 0 && f.Functions[0].Name == fn
				}) {
					in[fn] += s.Values[0]
				}
			}
		}
		// 0.4 s of each, without the moments of their start.
		if in["first"] > 300 && in["second"] > 370 {
			if other := all - in["first"] - in["second"]; other > all/50 {
				t.Errorf("%d of %d samples are in neither", other, all)
			}
			if all-whole > all/20 {
				t.Errorf("%d of %d samples are whole", whole, all)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("of %d samples: %v", all, in)
		}
	}
}
