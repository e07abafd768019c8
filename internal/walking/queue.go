// Package walking keeps what a walker of stacks knows of processes up to date: it gets the rules
// of those that are seen, again when they map files or execute programs, and loses those of
// processes that have ended.
package walking

import (
	"strings"
	"sync"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/symbol"
)

// Walker has the rules of processes. It is called from the goroutine of Queue.Run.
type Walker interface {
	// AddProcess reads the rules of a process, or of what it has mapped since it was added. With an
	// error some of them, or all, are missing: stacks are walked by frame pointers there.
	AddProcess(pid int) error
	// RemoveProcess takes back what AddProcess gave.
	RemoveProcess(pid int) error
	// HasProcess reports whether the walker has rules of the process.
	HasProcess(pid int) bool
}

// maxQueued is how many processes wait for the walker at most.
const maxQueued = 1 << 14

// Queue has the processes that a Walker is to look at. The rules of a large program take a while to
// compile, and whoever adds processes has other work. It is safe for concurrent use.
type Queue struct {
	pids chan int

	mu     sync.Mutex
	queued map[int]bool // guarded by mu: what is in pids
	known  map[int]bool // guarded by mu: processes that the walker has, or gets; true: that ended
	closed bool         // guarded by mu: pids is
	// waiting are the channels that are closed when a process was looked at; guarded by mu.
	waiting map[int][]chan struct{}
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	return &Queue{pids: make(chan int, maxQueued), queued: map[int]bool{}, known: map[int]bool{}, waiting: map[int][]chan struct{}{}}
}

// Add has the walker look at a process. If the queue is full nothing is done: what is sampled is
// announced again.
func (q *Queue) Add(pid int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(pid)
}

// Await has the walker look at a process while Run runs, and returns when it has. It returns at once if the
// queue is full or closed.
func (q *Queue) Await(pid int) {
	q.mu.Lock()
	q.add(pid)
	if !q.queued[pid] {
		q.mu.Unlock()
		return
	}
	done := make(chan struct{})
	q.waiting[pid] = append(q.waiting[pid], done)
	q.mu.Unlock()
	<-done
}

// Expect has the walker look at a process when it changes, but not now.
func (q *Queue) Expect(pid int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.known[pid]; !ok {
		q.known[pid] = false
	}
}

// Handle hears what happened to a process: those that the walker has are looked at again when they
// execute programs or map files, and forgotten when they have ended.
func (q *Queue) Handle(ev *symbol.Event) {
	switch {
	case ev.Kind == symbol.EventExit:
		q.Ended(ev.PID)
	case ev.Kind != symbol.EventMmap, strings.HasPrefix(ev.Path, "/") && ev.Path != "//anon": // memory has no rules
		q.Changed(ev.PID)
	}
}

// Changed has the walker look at a process again, if it has it.
func (q *Queue) Changed(pid int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.known[pid]; ok {
		q.add(pid)
	}
}

// Ended has the walker forget a process, if it has it.
func (q *Queue) Ended(pid int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.known[pid]; ok {
		q.known[pid] = true
		q.add(pid)
	}
}

func (q *Queue) add(pid int) {
	if q.closed || q.queued[pid] {
		return
	}
	select {
	case q.pids <- pid:
		q.queued[pid] = true
	default:
	}
}

// Close ends Run, once the walker has looked at what is in the queue.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.pids)
	}
}

// Run gives the walker the processes, until Close.
func (q *Queue) Run(w Walker) {
	for pid := range q.pids {
		q.Look(w, pid)
	}
}

// Look gives the walker a process at once. It must not be called while Run runs.
func (q *Queue) Look(w Walker, pid int) {
	q.mu.Lock()
	ended := q.known[pid]
	defer func(waiting []chan struct{}) {
		for _, done := range waiting {
			close(done)
		}
	}(q.waiting[pid])
	delete(q.waiting, pid)
	delete(q.queued, pid)
	q.known[pid] = false // what happens from here on is looked at again
	q.mu.Unlock()
	if ended {
		end(w, pid)
	} else {
		_ = w.AddProcess(pid)
	}
	if !w.HasProcess(pid) {
		q.mu.Lock()
		delete(q.known, pid)
		q.mu.Unlock()
	}
}

// end removes a process whose first thread has ended: the others may go on, and another process may have
// the number already.
func end(w Walker, pid int) {
	st, err := procfs.ReadStat(procfs.Root(nil), pid)
	switch {
	case err == nil && st.State != 'Z':
		_ = w.AddProcess(pid)
	case err != nil || st.Threads <= 1:
		_ = w.RemoveProcess(pid) // an entry that stays is of nobody
	}
}
