package symbol

import (
	"fmt"
	"sync"
	"testing"
)

// TestConcurrent asks, observes, evicts and counts from several goroutines, for
// the race detector.
func TestConcurrent(t *testing.T) {
	tr := newTree(t)
	for pid := 1; pid <= 8; pid++ {
		tr.stat(pid, "p", uint64(pid))
		tr.maps(pid, binMap, libMap)
	}
	ps, _ := testProcesses(t, tr, &Options{Budget: 1, MaxFiles: 1, MaxProcesses: 4, Source: true})
	e := openBytes(t, buildELF(t, testFile{syms: testSyms}), nil)
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				p, err := ps.Process(1 + (g+i)%8)
				if err != nil {
					errs <- err
					return
				}
				if got := frameNames(p.Resolve(nil, []uint64{0x401014, 0x7f0000001014})); p.start == 0 || got != "innermost innermost" && got != "(no mapping) (no mapping)" {
					errs <- fmt.Errorf("got %s", got)
					return
				}
				ps.Handle(&Event{Kind: EventExec, PID: 1 + i%8})
				ps.Stats()
				if f := e.Resolve(nil, []uint64{at + 0x14}); f[0].Name != "innermost" {
					errs <- fmt.Errorf("got %+v", f)
					return
				}
				if _, err := e.Lookup("outer"); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}
