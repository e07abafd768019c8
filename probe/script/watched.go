package script

import (
	"github.com/borescope/borescope/internal/walking"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/symbol"
	"github.com/borescope/borescope/symbol/lifecycle"
)

// watched looks at the processes whose stacks a script takes: the walker gets the rules of their
// files, also of those that they map and execute later, and their addresses can be named after they ended.
type watched struct {
	files    *symbol.Processes
	queue    *walking.Queue
	follower *lifecycle.Follower // nil if the kernel does not tell what processes do
	done     chan struct{}
}

// watch returns when the walker has the rules of the given processes: their first stacks are whole. What
// expected executes is looked at when it does.
func watch(loaded *bpf.Loaded, files *symbol.Processes, pids []int, expected int) *watched {
	w := &watched{files: files, queue: walking.NewQueue(), done: make(chan struct{})}
	if f, err := lifecycle.Follow(files, w.queue.Handle); err == nil {
		w.follower = f
	}
	for _, pid := range pids {
		_ = w.files.Observe(pid) // addresses of an ended process have no names
		w.queue.Look(loaded, pid)
	}
	if expected != 0 {
		_ = w.files.Observe(expected)
		w.queue.Expect(expected)
	}
	go func() {
		defer close(w.done)
		w.queue.Run(loaded)
	}()
	return w
}

// mostNamed is the number of processes that a script names which are looked at before it begins: the
// rules of a large program take tens of milliseconds.
const mostNamed = 16

// named returns the processes that a script compares pid with, as in /pid == 1234/.
func named(f *syntax.File) (pids []int) {
	for n := range syntax.All(f) {
		b, ok := n.(*syntax.Binary)
		if !ok || b.Op != "==" || len(pids) == mostNamed {
			continue
		}
		x, y := b.X, b.Y
		if c, ok := y.(*syntax.Cast); ok { // to the width of pid
			y = c.X
		}
		what, ok := x.(*syntax.Builtin)
		pid, is := y.(*syntax.Integer)
		if ok && is && what.Name == "pid" && pid.Value < 1<<31 {
			pids = append(pids, int(pid.Value))
		}
	}
	return pids
}

// add looks at a process.
func (w *watched) add(pid int) {
	w.learn()                // what came before its mappings are read
	_ = w.files.Observe(pid) // addresses of an ended process have no names
	w.queue.Add(pid)
}

// entered looks at a process that waits until that is done.
func (w *watched) entered(pid int) {
	w.learn()                // that it executes the program
	_ = w.files.Observe(pid) // addresses of an ended process have no names
	w.queue.Await(pid)
}

// learn hears what happened until now. Without it, mappings are read again by their age.
func (w *watched) learn() {
	_ = w.follower.Sync()
}

// stop ends the goroutines.
func (w *watched) stop() error {
	err := w.follower.Close()
	w.queue.Close()
	<-w.done
	return err
}
