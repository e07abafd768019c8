package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

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
		all[fmt.Sprintf("process %d %s", p.pid, p.comm)] = true
	}
	for _, what := range o.seen.Existing() {
		all["BPF "+what] = true
	}
	return all
}

type process struct {
	pid, parent int
	comm        string
}

// descendants returns the processes below this one, zombies among them.
func descendants() []process {
	var all []process
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		b, _ := os.ReadFile(file)
		if p, ok := parseStat(string(b)); ok {
			all = append(all, p)
		}
	}
	var found []process
	for parents := []int{os.Getpid()}; len(parents) > 0; parents = parents[1:] {
		for _, p := range all {
			if p.parent == parents[0] {
				found = append(found, p)
				parents = append(parents, p.pid)
			}
		}
	}
	return found
}

// parseStat parses /proc/PID/stat: "PID (COMM) STATE PPID …", whose COMM can have anything.
func parseStat(s string) (p process, ok bool) {
	pid, rest, _ := strings.Cut(s, " (")
	end := strings.LastIndex(rest, ") ")
	if end < 0 {
		return p, false
	}
	f := strings.Fields(rest[end:])
	if len(f) < 3 {
		return p, false
	}
	var err, perr error
	p.comm = rest[:end]
	p.pid, err = strconv.Atoi(pid)
	p.parent, perr = strconv.Atoi(f[2])
	return p, err == nil && perr == nil
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
		events := slices.Collect(strings.Lines(string(b)))
		for _, e := range events {
			if tracefs.Abandoned(e) {
				add("event", strings.TrimSpace(e))
			}
		}
	}
}
