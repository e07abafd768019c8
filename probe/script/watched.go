package script

import (
	"os"
	"strconv"
	"time"

	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/symbol"
)

// watched looks at the processes whose stacks a script takes: the walker gets the rules of their
// files, and their addresses can be named after they ended.
type watched struct {
	loaded *bpf.Loaded
	files  *symbol.Processes
	pids   chan int // for the walker
	done   chan struct{}
}

// mostWaiting is the number of processes that wait for the walker to get their rules.
const mostWaiting = 1 << 14

// watch returns when the walker has the rules of the given processes: their first stacks are whole.
func watch(loaded *bpf.Loaded, files *symbol.Processes, pids []int) *watched {
	w := &watched{loaded: loaded, files: files, pids: make(chan int, mostWaiting), done: make(chan struct{})}
	known := map[int]bool{}
	for _, pid := range pids {
		_ = w.files.Observe(pid) // addresses of an ended process have no names
		_ = w.loaded.AddProcess(pid)
		known[pid] = true
	}
	go w.walk(known)
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
	_ = w.files.Observe(pid) // addresses of an ended process have no names
	select {
	case w.pids <- pid:
	default: // it is announced again
	}
}

// stop ends the goroutine.
func (w *watched) stop() {
	close(w.pids)
	<-w.done
}

// swept is how often the rules of ended processes are removed.
const swept = 5 * time.Second

// walk gives the walker the processes, besides those that it knows. The rules of a large program take a
// while to compile, and records have to be read meanwhile.
func (w *watched) walk(known map[int]bool) {
	defer close(w.done)
	last := time.Now()
	for pid := range w.pids {
		_ = w.loaded.AddProcess(pid) // a process that can't be read is walked by frame pointers
		known[pid] = true
		if time.Since(last) < swept {
			continue
		}
		last = time.Now()
		for pid := range known {
			if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); err != nil {
				_ = w.loaded.RemoveProcess(pid) // its rules are in nobody's way for long
				delete(known, pid)
			}
		}
	}
}
