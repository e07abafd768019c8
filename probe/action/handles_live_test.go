//go:build linux

package action_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
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
