//go:build linux

package action_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// TestAfterClose: what reads a session that is closed says so, and whose it was;
// it was "bad file descriptor".
func TestAfterClose(t *testing.T) {
	type event struct{ A uint32 }
	counts, kept := action.NewCounter[uint32]("counts", 1), action.NewHash[uint32, uint32]("kept", 1)
	events := action.NewEvents[event]("events", 0)
	p := action.NewProgram("closing")
	p.On(probe.Begin{}, func(c *action.Ctx) {
		counts.Inc(c, 0)
		kept.Set(c, 0, 1)
		events.Emit(c, func(*event, *action.Bind) {})
	})
	s := attachOrSkip(t, p, nil)
	tab, err := counts.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	r, err := events.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := events.Open(s); err == nil {
		t.Error("a stream has two readers")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if r, err = events.Open(s); err != nil {
		t.Errorf("again, after Close: %v", err)
	}
	// A reader that waits is woken: it waited until its context ended.
	waits := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = r.Read(context.Background(), new(event))
		}
		waits <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	select {
	case err := <-waits:
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("a reader that waited: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a reader waits after Close")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	for name, f := range map[string]func() error{
		"Snapshot":     func() error { _, err := tab.Snapshot(); return err },
		"ReadAndClear": func() error { _, err := tab.ReadAndClear(); return err },
		"Table":        func() error { _, err := kept.Table(s); return err },
		"Open":         func() error { _, err := events.Open(s); return err },
		"Stats":        func() error { _, err := s.Stats(); return err },
		"Exit":         func() error { _, err := s.ExitRequested(); return err },
		"code":         func() error { _, err := s.ExitCode(); return err },
		"SetDisabled":  func() error { return s.SetDisabled(true) },
	} {
		if err := f(); !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), "closing") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// afterClose keeps what reads a session, for reading it after Close.
type afterClose map[string]func() error

func readTable[K comparable, V any](t *testing.T, reads afterClose, name string, s bpf.Reader,
	open func(bpf.Reader) (mapx.Table[K, V], error),
) {
	tab, err := open(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	reads[name+" snapshot"] = func() error { _, err := tab.Snapshot(); return err }
	reads[name+" clearing"] = func() error { _, err := tab.ReadAndClear(); return err }
	reads[name+" table"] = func() error { _, err := open(s); return err }
}

func readStream[T any](t *testing.T, reads afterClose, name string, s bpf.Reader,
	open func(bpf.Reader) (*action.EventReader[T], error),
) {
	r, err := open(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() { r.Close() })
	reads[name+" read"] = func() error { _, err := r.Read(context.Background(), new(T)); return err }
	reads[name+" open"] = func() error { _, err := open(s); return err }
	reads[name+" source"] = func() error { return r.Source().ReadInto(context.Background(), new(mapx.Record)) }
	reads[name+" stats"] = func() error {
		if _, err := r.Stats(); err != nil {
			return err
		}
		return os.ErrClosed // the last counts
	}
}

// TestEveryReaderAfterClose: every table of every kind, every stream and every method that
// reads says that the session is closed. Some said "bad file descriptor".
func TestEveryReaderAfterClose(t *testing.T) {
	type event struct{ A uint32 }
	hash, lru := action.NewHash[uint32, uint32]("hash", 8), action.NewLRU[uint32, uint32]("lru", 8)
	array, cell := action.NewArray[uint32]("array", 8), action.NewCell[uint64]("cell")
	count, single := action.NewCounter[uint32]("count", 8), action.NewCount("single")
	sum, most := action.NewSum[uint32]("sum", 8), action.NewMax[uint32]("most", 8)
	avg, stats := action.NewAvg[uint32]("avg", 8), action.NewStats[uint32]("stats", 8)
	by, one := action.NewHist[uint32]("by", 64), action.NewHist[action.None]("one", 1)
	lin := action.NewLinear[uint32]("lin", 64, 0, 10, 1)
	flips, flipped := action.NewCounter[uint32]("flips", 8), action.NewStats[uint32]("flipped", 8)
	flips.Flip()
	flipped.Flip()
	series := action.NewSeries[uint32]("series", 64, time.Second, 4, ir.AggSum)
	events, perf := action.NewEvents[event]("events", 0), action.NewEvents[event]("perf", 0).UsePerfBuffer()
	log := action.NewLog("log", 0)
	p := marked("closing", func(c *action.Ctx) {
		for _, set := range []interface{ Set(*action.Ctx, any, any) }{hash, lru, array} {
			set.Set(c, 1, 1)
		}
		cell.Set(c, nil, 1)
		count.Inc(c, 1)
		single.Inc(c)
		for _, agg := range []interface {
			Observe(*action.Ctx, any, ...any)
		}{sum, most, avg, stats, by, lin, flipped, series} {
			agg.Observe(c, 1, 1)
		}
		one.Observe(c, 1)
		flips.Inc(c, 1)
		events.Emit(c, func(*event, *action.Bind) {})
		perf.Emit(c, func(*event, *action.Bind) {})
		log.Printf(c, "%d", 1)
	})
	for _, name := range []string{"sys_exit", "sched_switch", "sched_wakeup", "sched_waking", "signal_generate"} {
		p.On(probe.RawTracepoint{Name: name}, func(c *action.Ctx) { c.Return() })
	}
	// With a context the programs are loaded in steps, with maps of all kinds.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := attachOrSkip(t, p, &action.Options{Context: ctx})
	marks(3)
	reads := afterClose{
		"stats":   func() error { _, err := s.Stats(); return err },
		"exit":    func() error { _, err := s.ExitRequested(); return err },
		"code":    func() error { _, err := s.ExitCode(); return err },
		"disable": func() error { return s.SetDisabled(true) },
		"link":    func() error { _, err := s.Link().Stats(); return err },
		"missed":  func() error { _, err := s.Link().Missed(); return err },
		"stopped": func() error { _, err := s.Link().Stopped(); return err },
		"update":  func() error { return s.Link().Update(s.Programs()) },
		"files":   func() error { _, err := s.Link().Files(); return err },
		"pin":     func() error { return s.Link().Pin(t.TempDir()) },
		"raw": func() error { // of a caller who borrowed a map
			m, err := mapx.New[uint32, uint32](s.EBPFMap(hash.Map()))
			if err == nil {
				_, err = m.Snapshot()
			}
			return err
		},
	}
	if n := total(t, s, count); n == 0 {
		t.Error("nothing is counted")
	}
	readTable(t, reads, "hash", s, hash.Table)
	readTable(t, reads, "lru", s, lru.Table)
	readTable(t, reads, "array", s, array.Table)
	readTable(t, reads, "cell", s, cell.Table)
	readTable(t, reads, "count", s, count.Table)
	readTable(t, reads, "single", s, single.Table)
	readTable(t, reads, "sum", s, sum.Table)
	readTable(t, reads, "most", s, most.Table)
	readTable(t, reads, "avg", s, avg.Table)
	readTable(t, reads, "statistics", s, stats.Table)
	readTable(t, reads, "by", s, by.Table)
	readTable(t, reads, "one", s, one.Table)
	readTable(t, reads, "lin", s, lin.Table)
	readTable(t, reads, "flips", s, flips.Table)
	readTable(t, reads, "flipped", s, flipped.Table)
	readTable(t, reads, "series", s, series.Table)
	readStream(t, reads, "events", s, events.Open)
	readStream(t, reads, "perf", s, perf.Open)
	readStream(t, reads, "log", s, log.Open)
	borrowed, err := mapx.New[uint32, uint32](s.EBPFMap(hash.Map()))
	if err != nil {
		t.Fatal(err)
	}
	reads["borrowed lookup"] = func() error { _, _, err := borrowed.Lookup(1); return err }
	reads["borrowed put"] = func() error { return borrowed.Put(1, 1) }
	reads["borrowed delete"] = func() error { return borrowed.Delete(1) }
	reads["borrowed clear"] = func() error { return borrowed.Clear() }
	reads["borrowed all"] = func() error {
		all, err := borrowed.All()
		for range all {
			t.Error("a closed map has entries")
		}
		return err()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, read := range reads {
		if err := read(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Run("storage", func(t *testing.T) { // Linux 5.11
		stored := action.NewTaskStorage[uint64]("stored")
		s := attachOrSkip(t, marked("closing", func(c *action.Ctx) { stored.Set(c, 1) }), nil)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := stored.OfThread(s, os.Getpid()); !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
}
