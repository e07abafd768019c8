package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/testlog"
)

// markEnv is the environment variable that identifies the processes of a step.
const markEnv = "BORESCOPE_CHECK"

// harmless makes a step fail if it leaves something on this machine. The error lists what, and
// when it was first seen. Objects that disappear within patience do not count: the kernel
// frees some late, and other users change the machine as well.
func harmless(patience time.Duration, run func(context.Context, *check) (testlog.Counts,
	error),
) func(context.Context, *check) (testlog.Counts, error) {
	return func(ctx context.Context, c *check) (counts testlog.Counts, err error) {
		// The step gets its own directory for temporary files, so that all files in it are the
		// step's. Programs that it runs as other users use it too.
		tmp, err := os.MkdirTemp("", "ci")
		if err == nil {
			err = os.Chmod(tmp, 0o777|os.ModeSticky)
		}
		if err != nil {
			return counts, err
		}
		defer os.RemoveAll(tmp)
		own := place{tmp, fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())}
		defer setenv("TMPDIR", tmp)()
		defer setenv(markEnv, own.mark)()

		w := watch(own)
		counts, err = run(ctx, c)
		return counts, errors.Join(err, w.end(patience))
	}
}

// setenv sets a variable and returns a function that restores it.
func setenv(name, value string) (undo func()) {
	was, ok := os.LookupEnv(name)
	os.Setenv(name, value)
	return func() {
		if ok {
			os.Setenv(name, was)
		} else {
			os.Unsetenv(name)
		}
	}
}

// place identifies a step's own files and processes.
type place struct{ tmp, mark string }

// watcher records what existed before a step, and when new objects appeared.
type watcher struct {
	own    place
	before map[string]bool
	begin  time.Time
	since  map[string]time.Duration
	stop   chan struct{}
	done   chan struct{}
}

func watch(own place) *watcher {
	w := &watcher{
		own: own, before: left(own), begin: time.Now(), since: map[string]time.Duration{},
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go func() {
		defer close(w.done)
		for {
			w.look()
			select {
			case <-w.stop:
				return
			case <-time.After(5 * time.Second):
			}
		}
	}()
	return w
}

// look records new objects, and removes those that are gone.
func (w *watcher) look() {
	now := left(w.own)
	for what := range now {
		if _, ok := w.since[what]; !ok && !w.before[what] {
			w.since[what] = time.Since(w.begin)
		}
	}
	for what := range w.since {
		if !now[what] {
			delete(w.since, what)
		}
	}
}

// end returns an error if new objects remain.
func (w *watcher) end(patience time.Duration) error {
	close(w.stop)
	<-w.done
	w.look()
	stays := w.since
	for end := time.Now().Add(patience); len(stays) > 0 && time.Now().Before(end); {
		time.Sleep(patience / 10)
		now := left(w.own)
		for what := range stays {
			if !now[what] {
				delete(stays, what)
			}
		}
	}
	if len(stays) == 0 {
		return nil
	}
	var lines []string
	for what, since := range stays {
		lines = append(lines,
			fmt.Sprintf("%s, seen %.0f s after the step's beginning", what, since.Seconds()))
	}
	slices.Sort(lines)
	return fmt.Errorf("left on this machine:\n%s", strings.Join(lines, "\n"))
}
