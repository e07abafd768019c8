package collecthttp_test

import (
	"fmt"
	"net/http"
	"os"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/collect/collecthttp"
)

// A service that shows where its own time goes: /debug/stacks/ is a flame graph of the last
// minute, and go tool pprof http://…/debug/stacks/profile?seconds=10 reads the last ten seconds.
func Example() {
	serve := func(mux *http.ServeMux) (stop func(), err error) {
		c, err := collect.Attach([]probe.Target{probe.Perf{Freq: 49}}, &collect.Options{
			PIDs: []int{os.Getpid()}, IncludeSelf: true, Windows: true,
		})
		if err != nil {
			return nil, err // without privileges it names those that are missing
		}
		p, err := collect.NewProfiler(c, nil)
		if err != nil {
			return nil, err
		}
		h := collecthttp.New(p, nil)
		mux.Handle("/debug/stacks/", http.StripPrefix("/debug/stacks/", h))
		return func() {
			h.Close()
			p.Close()
		}, nil
	}
	stop, err := serve(http.NewServeMux())
	if err != nil {
		fmt.Println(err)
		return
	}
	stop()
}
