package probe

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestStopped: a CPU that goes offline is sampled no more, also when it is back, and
// the link says so, whoever owns its event. What is attached anew samples it.
func TestStopped(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Guest)
	const file = "/sys/devices/system/cpu/cpu1/online"
	online := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { online("1") })
	stopped := func(l *Link, want ...int) {
		t.Helper()
		got, err := l.Stopped()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v stopped, want %v", got, err, want)
		}
	}
	for _, method := range []Method{MethodPerfLink, MethodPerfIoctl} {
		t.Run(method.String(), func(t *testing.T) {
			plan := mustResolve(t, nil, "profile:hz:99")
			for i := range plan.Programs {
				if plan.Programs[i].Method == MethodPerfIoctl && method == MethodPerfLink {
					return // Linux before 5.15
				}
				plan.Programs[i].Method = method
			}
			_, l := attachCounter(t, plan, probetest.Counting{Value: -1})
			time.Sleep(20 * time.Millisecond)
			stopped(l)
			online("0")
			stopped(l, 1)
			online("1")
			stopped(l, 1)
			_, anew := attachCounter(t, plan, probetest.Counting{Value: -1})
			stopped(anew)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Stopped(); err == nil {
				t.Error("a closed link says what has stopped")
			}
		})
	}
	// A process is sampled on whichever CPU it runs.
	_, l := attachCounter(t, mustResolve(t, nil, "profile:hz:99 pid=1"), probetest.Counting{Value: -1})
	online("0")
	stopped(l)
}
