package bpfhttp_test

import (
	"fmt"
	"net/http"
	"os"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir/bpf/bpfhttp"
)

// A service shows how often it makes which system call: /debug/maps/ as text,
// /debug/maps/calls?format=json&top=5 as JSON.
func Example() {
	serve := func(mux *http.ServeMux) (stop func() error, err error) {
		calls := action.NewCounter[int64]("calls", 1024)
		p := action.NewProgram("own")
		p.IncludeSelf = true
		p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) { calls.Inc(c, c.Arg(1)) })
		s, err := action.Attach(p, &action.Options{
			Resolve: &probe.Options{Filter: &probe.Filter{PIDs: []int{os.Getpid()}}},
		})
		if err != nil {
			return nil, err // without privileges it names those that are missing
		}
		tables, err := bpfhttp.New(s, nil)
		if err != nil {
			return nil, err
		}
		mux.Handle("/debug/maps/", http.StripPrefix("/debug/maps/", tables))
		return s.Close, nil
	}
	stop, err := serve(http.NewServeMux())
	if err != nil {
		fmt.Println(err)
		return
	}
	stop()
}
