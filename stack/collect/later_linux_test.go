package collect_test

import (
	"context"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

// TestLaterLibrary: a process that loads a library after it was seen twice is announced
// again, and its stacks are whole from then on. They led out of the mappings for ever.
func TestLaterLibrary(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	pid := stacktest.StartLater(t)
	c := attach(t, probe.Perf{Freq: 999}, &collect.Options{PIDs: []int{pid}, NoKernel: true})
	defer c.Close()
	if err := c.LoadWalker(); err != nil {
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for rec := (mapx.Record{}); c.Processes().ReadInto(ctx, &rec) == nil; {
			if pid, _, err := collect.ParseProcess(&rec); err == nil {
				_ = c.AddProcess(pid)
			}
		}
	}()
	defer func() { cancel(); <-done }()
	for {
		var out, whole uint64
		for _, s := range userStacks(t, c) {
			switch {
			case s.Stopped == stack.StopNoMapping:
				out += s.count
			case s.Stopped == stack.StopBottom: // of main's half second, and then of the library
				whole += s.count
			}
		}
		if whole >= 700 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%d stacks led out of the mappings, %d were whole", out, whole)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
