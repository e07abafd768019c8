package action_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/sysnames"
)

// A service has the latency of its own system calls at /metrics, by name, for Prometheus: the
// histograms in the kernel go on counting, as Prometheus' do. The filter is this process by its
// number in its own pid namespace, and IncludeSelf is needed because a program otherwise leaves
// out the process that loaded it.
func ExampleHist_metrics() {
	starts, times := action.NewLRU[uint32, uint64]("starts", 1024), action.NewHist[int64]("times", 4096)
	sums := action.NewSum[int64]("sums", 512)
	p := action.NewProgram("own")
	p.IncludeSelf = true
	p.On(probe.Tracepoint{Group: "raw_syscalls", Name: "sys_enter"}, func(c *action.Ctx) {
		starts.Set(c, c.TID(), c.Nsecs())
	})
	p.On(probe.Tracepoint{Group: "raw_syscalls", Name: "sys_exit"}, func(c *action.Ctx) {
		starts.Take(c, c.TID(), func(t0 action.Int) {
			took := c.Let(c.Nsecs().Sub(t0))
			times.Observe(c, took, c.Field("id"))
			sums.Observe(c, took, c.Field("id")) // buckets have no exact sum
		})
	})
	s, err := action.Attach(p, &action.Options{
		Resolve: &probe.Options{Filter: &probe.Filter{PIDs: []int{os.Getpid()}}},
	})
	if err != nil {
		fmt.Println(err) // without privileges it names those that are missing
		return
	}
	defer s.Close()
	buckets, err := times.Table(s)
	if err != nil {
		fmt.Println(err)
		return
	}
	totals, err := sums.Table(s)
	if err != nil {
		fmt.Println(err)
		return
	}
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		var page hist.PrometheusPage
		snap, err := buckets.Snapshot()
		exact, terr := totals.Snapshot()
		err = errors.Join(err, terr)
		sum := mapx.Values(exact)
		for _, e := range snap.Entries {
			h, herr := hist.Log2Of(e.Value)
			if herr != nil {
				err = errors.Join(err, herr)
				continue
			}
			seconds := hist.ToPrometheus(h, 1e-9)
			seconds.Sum, seconds.SumExact = float64(sum[e.Key])/1e9, true
			name := sysnames.Syscall(runtime.GOARCH, 0, int(e.Key))
			err = errors.Join(err, page.Histogram("own_syscall_seconds", "System calls of this process.",
				[]hist.PrometheusLabel{{Name: "call", Value: name}}, seconds))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		page.WriteTo(w)
	})
	fmt.Println(http.ListenAndServe("localhost:8080", nil))
}

// Windows have what was counted in the last ten seconds, for as long as the service runs: every
// call is in exactly one window, and a full table has room again in the next one.
func ExampleCounter_Windows() {
	calls := action.NewCounter[action.Comm]("calls", 4096)
	calls.Flip() // so that nothing is lost while a window is read
	p := action.NewProgram("calls")
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) { calls.Inc(c, c.Comm()) })
	watch := func(ctx context.Context) error {
		s, err := action.Attach(p, &action.Options{Context: ctx})
		if err != nil {
			return err
		}
		defer s.Close()
		windows, err := calls.Windows(s, time.Minute)
		if err != nil {
			return err
		}
		for ctx.Err() == nil {
			time.Sleep(time.Second)
			if _, err := windows.Next(); err != nil {
				return err
			}
			last := windows.Last(10 * time.Second)
			fmt.Printf("%v from %s on:\n", last.Duration().Round(time.Second), last.Begin.Format(time.TimeOnly))
			if err := mapx.Print(os.Stdout, "@calls", mapx.Top(last.Snapshot, 10), nil); err != nil {
				return err
			}
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := watch(ctx); err != nil {
		fmt.Println(err)
	}
}
