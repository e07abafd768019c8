package walking_test

import (
	"errors"
	"os"
	"reflect"
	"sync"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/walking"
	"github.com/borescope/borescope/symbol"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// walker notes what it is asked for. It has every process but those in refused.
type walker struct {
	mu      sync.Mutex
	did     []call
	has     map[int]bool
	refused map[int]bool
	during  func(pid int) // of AddProcess
}

type call struct {
	what string
	pid  int
}

func (w *walker) AddProcess(pid int) error {
	if w.during != nil {
		w.during(pid)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did = append(w.did, call{"add", pid})
	if w.refused[pid] {
		return errors.New("it can't be read")
	}
	w.has[pid] = true
	return nil
}

func (w *walker) RemoveProcess(pid int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did = append(w.did, call{"remove", pid})
	delete(w.has, pid)
	return nil
}

func (w *walker) HasProcess(pid int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.has[pid]
}

// nobody has a number that no process can have.
const nobody = 1 << 30

// TestQueue: a process is looked at once however often it is added, again when it changes, not if
// it was never added or has no rules, and is removed when it has ended.
func TestQueue(t *testing.T) {
	self := os.Getpid()
	for _, c := range []struct {
		name string
		do   func(q *walking.Queue)
		want []call
	}{
		{"added", func(q *walking.Queue) { q.Add(1); q.Add(1); q.Add(2); q.Add(1) }, []call{{"add", 1}, {"add", 2}}},
		{"not known", func(q *walking.Queue) { q.Changed(1); q.Ended(1) }, nil},
		{"expected", func(q *walking.Queue) { q.Expect(1); q.Changed(1); q.Changed(1) }, []call{{"add", 1}}},
		{"told that it maps a file, and memory", func(q *walking.Queue) {
			q.Expect(1)
			q.Expect(2)
			q.Expect(3)
			q.Handle(&symbol.Event{Kind: symbol.EventMmap, PID: 1, Path: "/lib/x.so"})
			q.Handle(&symbol.Event{Kind: symbol.EventMmap, PID: 2})
			q.Handle(&symbol.Event{Kind: symbol.EventMmap, PID: 2, Path: "//anon"})
			q.Handle(&symbol.Event{Kind: symbol.EventExec, PID: 3})
		}, []call{{"add", 1}, {"add", 3}}},
		{"only expected", func(q *walking.Queue) { q.Expect(1) }, nil},
		{"ended", func(q *walking.Queue) { q.Expect(nobody); q.Ended(nobody); q.Changed(nobody) }, []call{{"remove", nobody}}},
		{"ended, and another has the number", func(q *walking.Queue) { q.Expect(self); q.Ended(self) }, []call{{"add", self}}},
	} {
		q, w := walking.NewQueue(), &walker{has: map[int]bool{}}
		c.do(q)
		q.Close()
		q.Add(3) // after Close nothing is added
		q.Run(w)
		if !reflect.DeepEqual(w.did, c.want) {
			t.Errorf("%s: %v, want %v", c.name, w.did, c.want)
		}
	}
}

// TestQueueKnows: what changes while its rules are read is looked at again, what was looked at is
// known, and what has no rules or has ended is not.
func TestQueueKnows(t *testing.T) {
	q, w := walking.NewQueue(), &walker{has: map[int]bool{}, refused: map[int]bool{2: true}}
	times := 0
	w.during = func(pid int) {
		if times++; times == 1 {
			q.Changed(pid)
		}
	}
	q.Look(w, 1)
	q.Look(w, 2)
	q.Look(w, nobody)
	q.Ended(nobody)
	q.Changed(2)
	q.Close()
	q.Run(w)
	want := []call{{"add", 1}, {"add", 2}, {"add", nobody}, {"add", 1}, {"remove", nobody}}
	if !reflect.DeepEqual(w.did, want) {
		t.Errorf("%v, want %v", w.did, want)
	}
}

// TestQueueIsBounded: what finds no room is not waited for.
func TestQueueIsBounded(t *testing.T) {
	q, w := walking.NewQueue(), &walker{has: map[int]bool{}}
	for pid := range 1 << 15 {
		q.Add(pid)
	}
	q.Close()
	q.Run(w)
	if len(w.did) != 1<<14 {
		t.Errorf("%d processes were looked at", len(w.did))
	}
}

// TestAwait: who awaits a process goes on when the walker has looked at it, and does not wait for ever when
// the queue ends.
func TestAwait(t *testing.T) {
	q := walking.NewQueue()
	looked := map[int]bool{}
	var mu sync.Mutex
	w := &walker{has: map[int]bool{}, during: func(pid int) {
		mu.Lock()
		defer mu.Unlock()
		looked[pid] = true
	}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.Run(w)
	}()
	var all sync.WaitGroup
	for pid := range 100 {
		all.Go(func() {
			q.Await(pid)
			mu.Lock()
			defer mu.Unlock()
			if !looked[pid] {
				t.Errorf("%d was not looked at", pid)
			}
		})
	}
	all.Wait()
	q.Close()
	<-ended
	q.Await(1000)
	if looked[1000] {
		t.Error("the walker looked at a process after the end")
	}
}
