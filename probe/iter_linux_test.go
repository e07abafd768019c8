package probe

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestIter: a pass over all tasks, against /proc.
func TestIter(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.Iter))
	n, l := attachCounter(t, mustResolve(t, nil, "iter:task"), probetest.Counting{Value: -1})
	r, err := l.OpenIter()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := io.ReadAll(r); err != nil || len(out) != 0 {
		t.Errorf("read %q, %v", out, err)
	}
	r.Close()
	tasks, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	// The program runs once more at the end; tasks come and go.
	if got := int(n.read(t, 0).Count); got < len(tasks)*3/4 || got > len(tasks)*5/4+10 {
		t.Errorf("%d runs for %d tasks", got, len(tasks))
	}
}

// TestIterPID: the tasks of one process.
func TestIterPID(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.Iter))
	w := probetest.Start(t)
	plan := mustResolve(t, nil, fmt.Sprintf("iter:task pid=%d", w.PID()))
	n := loadCounter(t, plan, probetest.Counting{Value: -1})
	l, err := plan.Attach(n.progs, nil)
	if err != nil {
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	defer l.Close()
	r, err := l.OpenIter()
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, r)
	r.Close()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 2}) // one thread, and the end
}

// TestSoak attaches and detaches at random, from several goroutines, under
// load, and compares descriptors and tracefs events before and after. It runs
// for PROBE_SOAK (a duration; 1 s by default). Each goroutine has programs of its
// own: a function takes a tracing program once, and so does a tracepoint of perf's.
func TestSoak(t *testing.T) {
	testenv.Need(t, testenv.Long, testenv.Root, testenv.Uprobes, testenv.Tracefs)
	length := probetest.SoakLength(t)
	texts := []string{
		"uprobe:" + probetest.TargetPath() + ":add", "uretprobe:" + probetest.TargetPath() + ":nested", "uprobe:" + probetest.TargetPath() + ":helper_*",
		"usdt:" + probetest.TargetPath() + ":target:*", "profile:hz:99", "interval:ms:5", "software:page-faults:1",
		"rawtracepoint:sys_enter", "tracepoint:sched:sched_switch", "kprobe:ksys_write", "kretprobe:ksys_read",
		"kretprobe:ksys_read maxactive=4", "kprobe:ksys_write,kprobe:ksys_read", "fentry:ksys_write", "socket:lo", "begin,end",
	}
	const goroutines = 3
	type ready struct {
		plan     *Plan
		counters [goroutines]*counter
	}
	var plans []ready
	for _, s := range texts {
		plan, err := Resolve(thisMachine(), []Target{mustParse(t, s)}, nil)
		if isUnsupportedErr(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		r := ready{plan: plan}
		for i := range r.counters {
			r.counters[i] = loadCounter(t, plan, probetest.Counting{Value: -1})
		}
		plans = append(plans, r)
	}
	w := probetest.Start(t)
	dir := testenv.TracefsDir(t)
	before, events := probetest.OpenFiles(t), tracefsEvents(dir)
	end := time.Now().Add(length)
	var wg sync.WaitGroup
	var mu sync.Mutex
	rounds := 0
	for i := range goroutines {
		wg.Go(func() {
			for time.Now().Before(end) {
				r := plans[rand.IntN(len(plans))]
				l, err := r.plan.Attach(r.counters[i].progs, nil)
				if isUnsupportedErr(err) {
					continue // 5.10 attaches a tracing program once
				}
				if err != nil {
					t.Errorf("%s: %v", r.plan.Programs[0].Place(), err)
					return
				}
				if rand.IntN(2) == 0 {
					time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
				}
				if err := l.Close(); err != nil {
					t.Errorf("close %s: %v", r.plan.Programs[0].Place(), err)
				}
				mu.Lock()
				rounds++
				mu.Unlock()
			}
		})
	}
	stop := w.KeepBusy()
	wg.Wait()
	stop()
	t.Logf("%d rounds of %d kinds", rounds, len(plans))
	if after := probetest.OpenFiles(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if after := tracefsEvents(dir); after != events {
		t.Errorf("tracefs events before:\n%s\nafter:\n%s", events, after)
	}
}

func tracefsEvents(dir string) string {
	var s string
	for _, name := range []string{"kprobe_events", "uprobe_events"} {
		b, _ := os.ReadFile(dir + "/" + name)
		s += string(b)
	}
	return s
}
