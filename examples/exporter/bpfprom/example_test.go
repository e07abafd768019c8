package bpfprom_test

import (
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/borescope/borescope/examples/exporter/bpfprom"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
)

// A service counts its own system calls in the kernel and has them at /metrics.
func Example() {
	calls := action.NewCounter[int64]("calls", 1024)
	p := action.NewProgram("own")
	p.IncludeSelf = true
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) { calls.Inc(c, c.Arg(1)) })
	s, err := action.Attach(p, &action.Options{
		Resolve: &probe.Options{Filter: &probe.Filter{PIDs: []int{os.Getpid()}}},
	})
	if err != nil {
		fmt.Println(err) // without privileges it names those that are missing
		return
	}
	defer s.Close()
	if err := export(s, calls); err != nil {
		fmt.Println(err)
	}
}

func export(s *action.Session, calls *action.Counter[int64]) error {
	table, err := calls.Table(s)
	if err != nil {
		return err
	}
	c, err := bpfprom.New(table, bpfprom.Metric{Name: "own_calls_total", Labels: []string{"call"}})
	if err != nil {
		return err
	}
	return prometheus.Register(c)
}
