package collect_test

import (
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

// TestCoroutines: the stack of a coroutine ends at the code that its first function returns to, which
// no call has led to. What was walked from there on was made up.
func TestCoroutines(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	cases := map[string]string{"makecontext": stacktest.CoroutineMakecontext}
	if stacktest.CoroutineBoost != "" {
		cases["Boost.Context"] = stacktest.CoroutineBoost
	}
	for name, source := range cases {
		t.Run(name, func(t *testing.T) {
			pid := stacktest.StartCompiled(t, "coroutine", source)
			c := attach(t, probe.Perf{Freq: 999}, &collect.Options{PIDs: []int{pid}, NoKernel: true, Hold: true})
			defer c.Close()
			if err := c.AddProcess(pid); err != nil {
				t.Fatal(err)
			}
			if err := c.LoadWalker(); err != nil {
				testenv.SkipUnsupported(t, err)
				t.Fatal(err)
			}
			var n uint64
			for end := time.Now().Add(30 * time.Second); n < 100 && time.Now().Before(end); {
				time.Sleep(50 * time.Millisecond)
				n = 0
				for _, s := range userStacks(t, c) {
					if len(s.Frames) != 3 || s.Stopped != stack.StopBottom {
						t.Fatalf("%d of %v: want the frames of work, coroutine and its start", s.count, s.Stack)
					}
					n += s.count
				}
			}
			if n < 100 {
				t.Errorf("%d samples", n)
			}
		})
	}
}
