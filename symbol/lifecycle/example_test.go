package lifecycle_test

import (
	"context"
	"log"
	"time"

	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/symbol"
	"github.com/borescope/borescope/symbol/lifecycle"
)

// Records of a CPU about processes keep a table of processes up to date.
func Example() {
	s, err := pmc.OpenSampler(pmc.Dummy(), pmc.Scope{CPUs: []int{0}}, pmc.SamplingSpec{Task: true, Comm: true, Mmap: true}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	processes := symbol.NewProcesses(nil)
	defer processes.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for rec := (pmc.Record{}); s.ReadInto(ctx, &rec) == nil; {
		if ev, ok := lifecycle.Event(&rec); ok {
			processes.Handle(&ev)
		}
	}
}
