package peer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// Call is where a function was called, and where the function that did it was called, each as PlaceIn writes
// it. Inner is "" for the innermost function, which has no such place.
type Call struct{ Inner, Outer string }

// PlaceIn returns a place in a file as perf script -F ip,dso writes it.
func PlaceIn(path string, offset uint64) string { return fmt.Sprintf("%x (%s)", offset, path) }

// PerfStack is a user stack of perf script: the places of its calls, the innermost first.
type PerfStack struct {
	Comm  string
	Calls []Call
}

// PerfMappings is what the processes of a recording mapped, of whatever age it is.
type PerfMappings map[int][]perfMapping

type perfMapping struct {
	start, end, offset uint64
	path               string
}

// Place returns an address of a process as PlaceIn does, "" if it is in no file.
func (p PerfMappings) Place(pid int, address uint64) string {
	for _, m := range slices.Backward(p[pid]) { // the latest
		if address >= m.start && address < m.end {
			return PlaceIn(m.path, address-m.start+m.offset)
		}
	}
	return ""
}

// PerfStacks calls f with the user stacks of a file of perf record --call-graph dwarf, and returns the
// mappings of the processes in it.
func PerfStacks(file string, f func(*PerfStack)) (PerfMappings, error) {
	cmd := exec.Command("perf", "script", "-i", file, "-F", "comm,ip,sym,dso", "--no-inline",
		"--show-mmap-events", "--show-task-events")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := perfScript{mappings: PerfMappings{}, stack: f}
	err = p.read(out)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return nil, err
	}
	if p.calls == 0 {
		return nil, errors.New("perf script shows no calls")
	}
	return p.mappings, nil
}

// perfScript reads the text of perf script.
type perfScript struct {
	mappings PerfMappings
	stack    func(*PerfStack)
	calls    int

	sample PerfStack
	depth  int
	inner  string
}

func (p *perfScript) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		switch comm, event, ok := strings.Cut(line, " PERF_RECORD_"); {
		case ok:
			p.event(event)
		case strings.TrimSpace(line) == "": // the end of a sample
			if p.depth > 0 {
				p.stack(&p.sample)
			}
			p.sample, p.depth, p.inner = PerfStack{}, 0, ""
		case line[0] != ' ' && line[0] != '\t':
			p.sample.Comm = strings.TrimSpace(comm)
		default:
			p.frame(strings.Fields(line))
		}
	}
	return lines.Err()
}

// event reads a record of the mappings of processes.
func (p *perfScript) event(text string) {
	var pid, tid, parent int
	var m perfMapping
	if _, err := fmt.Sscanf(text, "FORK(%d:%d):(%d:", &pid, &tid, &parent); err == nil {
		if pid != parent {
			p.mappings[pid] = slices.Clone(p.mappings[parent])
		}
		return
	}
	if _, err := fmt.Sscanf(text, "MMAP2 %d/%d: [%v(%v) @ %v ", &pid, &tid, &m.start, &m.end, &m.offset); err != nil {
		return
	}
	if _, path, ok := strings.Cut(text, "]: r-xp "); ok {
		m.path = path
		m.end += m.start
		p.mappings[pid] = append(p.mappings[pid], m)
	}
}

// frame reads a line of a stack.
func (p *perfScript) frame(fields []string) {
	if len(fields) < 3 || strings.HasPrefix(fields[0], "ffffffff") {
		return // the kernel's, or nowhere
	}
	if p.depth++; p.depth == 1 {
		return
	}
	outer := fields[0] + " " + fields[len(fields)-1]
	p.sample.Calls = append(p.sample.Calls, Call{p.inner, outer})
	p.inner = outer
	p.calls++
}
