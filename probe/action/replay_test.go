//go:build linux

package action_test

import (
	"context"
	"errors"
	"io"
	"os"
	"reflect"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// TestReplay records what is read of a session, and reads it again from the
// recording with the same handles and the same code.
func TestReplay(t *testing.T) {
	type key struct {
		A uint32
		C action.Comm
	}
	calls := action.NewCounter[key]("calls", 64)
	hist := action.NewHist[uint32]("hist", 64)
	stats := action.NewStats[action.None]("stats", 1)
	stacks := action.NewCounter[[127]uint64]("stacks", 64)
	cell := action.NewCell[uint64]("cell")
	ev := action.NewEvents[numbered]("ev", 0)
	p := marked("replay", func(c *action.Ctx) {
		calls.Inc(c, 7, c.Comm())
		cell.Add(c, nil, 1)
		hist.Observe(c, cell.Get(c, nil), 1)
		stats.Observe(c, cell.Get(c, nil))
		stacks.Inc(c, c.Kstack(127))
		ev.Emit(c, func(e *numbered, b *action.Bind) { b.Set(&e.Seq, cell.Get(c, nil)) })
	})
	s := attach(t, p)
	dir := t.TempDir()
	rec, err := recording.Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Record(rec)
	marks(23)
	if err := s.Detach(); err != nil {
		t.Fatal(err)
	}
	read := func(h bpf.Reader, n int) []any {
		t.Helper()
		var out []any
		add := func(v any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, v)
		}
		add(snapshot(calls.Table(h)))
		add(snapshot(hist.Table(h)))
		add(snapshot(stats.Table(h)))
		add(snapshot(stacks.Table(h)))
		add(snapshot(cell.Table(h)))
		r, err := ev.Open(h)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for range n {
			var e numbered
			if _, err := r.Read(context.Background(), &e); err != nil {
				t.Fatal(err)
			}
			out = append(out, e)
		}
		return out
	}
	live := read(s, 23)
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	recording, err := recording.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer recording.Close()
	h, err := bpf.Open(p.Program, recording)
	if err != nil {
		t.Fatal(err)
	}
	if again := read(h, 23); !reflect.DeepEqual(live, again) {
		t.Errorf("live %v\nreplayed %v", live, again)
	}
	r, err := ev.Open(h)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 23 {
		var e numbered
		if _, err := r.Read(context.Background(), &e); err != nil {
			t.Fatal(err)
		}
	}
	var e numbered
	if _, err := r.Read(context.Background(), &e); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func snapshot[K, V any](tab mapx.Table[K, V], err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return tab.Snapshot()
}

// TestReplayShortKeys: on 5.10 the map for deep stacks has shorter keys than the
// program's type; a recording from there is read with that type too.
func TestReplayShortKeys(t *testing.T) {
	testenv.Need(t, testenv.Root)
	stacks := action.NewCounter[[127]uint64]("stacks", 64)
	p := action.NewProgram("short")
	p.IncludeSelf = true
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) { stacks.Inc(c, c.Kstack(127)) })
	plan := rawPlan2()
	plan.Kernel = "5.10.0"
	l, err := bpf.Load(p.Program, plan)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	rec, err := recording.Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Record(rec)
	run(t, l.Programs()["p0"], 0, 0)
	live, err := snapshot(stacks.Table(l))
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	recording, err := recording.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer recording.Close()
	h, err := bpf.Open(p.Program, recording)
	if err != nil {
		t.Fatal(err)
	}
	again, err := snapshot(stacks.Table(h))
	if err != nil || !reflect.DeepEqual(live, again) {
		t.Errorf("live %v\nreplayed %v, %v", live, again, err)
	}
}
