// Service shows what it does itself: /metrics has its system calls by name with their times,
// /debug/stacks/ the last minute of its stacks, and /work?n=23 is what it does.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/sysnames"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/collect/collecthttp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	own := []int{os.Getpid()}
	starts, times, p := action.NewTaskStorage[uint64]("starts"), action.NewHist[int64]("times", 4096), action.NewProgram("calls")
	p.IncludeSelf = true
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) { starts.Set(c, c.Nsecs()) })
	p.On(probe.Tracepoint{Group: "raw_syscalls", Name: "sys_exit"}, func(c *action.Ctx) {
		t0 := starts.Get(c) // of this call, for each is used once: 0 if its sys_enter was missed
		c.If(t0.Ne(0), func() { times.Observe(c, c.Nsecs().Sub(t0), c.Field("id")); starts.Set(c, 0) })
	})
	session, err := action.Attach(p, &action.Options{Resolve: &probe.Options{Filter: &probe.Filter{PIDs: own}}})
	if err != nil {
		return err
	}
	defer session.Close()
	calls, err := times.Table(session)
	if err != nil {
		return err
	}
	c, err := collect.Attach([]probe.Target{probe.Perf{Freq: 49}}, &collect.Options{PIDs: own, IncludeSelf: true, Windows: true})
	if err != nil {
		return err
	}
	profiler, err := collect.NewProfiler(c, nil)
	if err != nil {
		return err
	}
	defer profiler.Close()
	stacks := collecthttp.New(profiler, nil)
	defer stacks.Close()

	http.Handle("/debug/stacks/", http.StripPrefix("/debug/stacks/", stacks))
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		snap, err := calls.Snapshot()
		lost, serr := session.Stats()
		page := new(hist.PrometheusPage)
		err = errors.Join(err, serr, page.Counter("own_syscalls_missed", "System calls that were not seen.", nil, float64(lost.Missed)))
		for _, e := range snap.Entries {
			h, herr := hist.Log2Of(e.Value)
			call := []hist.PrometheusLabel{{Name: "call", Value: sysnames.Syscall(runtime.GOARCH, 0, int(e.Key))}}
			err = errors.Join(err, herr, page.Histogram("own_syscall_seconds", "System calls of this process.", call, hist.ToPrometheus(h, 1e-9)))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		page.WriteTo(w)
	})
	http.HandleFunc("/work", func(_ http.ResponseWriter, r *http.Request) {
		for n, _ := strconv.Atoi(r.FormValue("n")); n > 0; n-- {
			syscall.Getpgid(0)
		}
	})
	server := &http.Server{Addr: os.Args[1]}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	return server.ListenAndServe()
}
