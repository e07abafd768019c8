package script

import (
	"os"
	"strconv"
	"time"

	"github.com/borescope/borescope/probe/ir/bpf"
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

func watch(loaded *bpf.Loaded, files *symbol.Processes) *watched {
	w := &watched{loaded: loaded, files: files, pids: make(chan int, mostWaiting), done: make(chan struct{})}
	go w.walk()
	return w
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

// walk gives the walker the processes. The rules of a large program take a while to compile, and
// records have to be read meanwhile.
func (w *watched) walk() {
	defer close(w.done)
	known := map[int]bool{}
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
