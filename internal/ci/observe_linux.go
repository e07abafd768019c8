package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/tracefs"
)

// observer collects the BPF objects that descendants of this process have descriptors of. The
// kernel's lists of objects are the whole machine's and do not tell who made one, but an object
// that stays was somebody's descriptor at first.
type observer struct {
	seen       testenv.Objects
	stop, done chan struct{}
}

// observe begins to collect.
func observe() *observer {
	o := &observer{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(o.done)
		for {
			for _, p := range descendants() {
				o.seen = o.seen.Union(testenv.ObjectsOf(p.pid))
			}
			select {
			case <-o.stop:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return o
}

// end ends collecting.
func (o *observer) end() {
	close(o.stop)
	<-o.done
}

// left returns the descendants of this process, and the collected objects that exist still.
func (o *observer) left() map[string]bool {
	all := map[string]bool{}
	for _, p := range descendants() {
		all[fmt.Sprintf("process %d %s", p.pid, p.Comm)] = true
	}
	for _, what := range o.seen.Existing() {
		all["BPF "+what] = true
	}
	return all
}

type process struct {
	pid int
	procfs.Stat
}

// descendants returns the processes below this one, zombies among them.
func descendants() []process {
	root := procfs.Root(nil)
	pids, _ := procfs.PIDs(root)
	var all []process
	for _, pid := range pids {
		if st, err := procfs.ReadStat(root, pid); err == nil {
			all = append(all, process{pid, st})
		}
	}
	var found []process
	for parents := []int{os.Getpid()}; len(parents) > 0; parents = parents[1:] {
		for _, p := range all {
			if p.PPID == parents[0] {
				found = append(found, p)
				parents = append(parents, p.pid)
			}
		}
	}
	return found
}

// addEvents adds the events in tracefs that this library made in a process that has ended.
// tracefs is the whole machine's.
func addEvents(add func(kind, what string)) {
	d, err := tracefs.Here()
	if err != nil {
		return
	}
	defer d.Close()
	for _, file := range []string{"kprobe_events", "uprobe_events"} {
		b, _ := os.ReadFile("/" + d.Path + "/" + file)
		for e := range strings.Lines(string(b)) {
			if _, ok := tracefs.Abandoned(e); ok {
				add("event", strings.TrimSpace(e))
			}
		}
	}
}
