package script

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe/script/output"
	"github.com/borescope/borescope/symbol"
	"github.com/borescope/borescope/symbol/lifecycle"
)

// names names what a running script prints. Symbols are read when the first is asked for.
type names struct {
	source    bool     // source lines and inlined calls, too
	debug     []string // where debug files are
	kernel    *symbol.Kernel
	processes *symbol.Processes
	follower  *lifecycle.Follower // tells processes what happens to them; nil if the kernel does not tell it
	states    map[output.Process]symbol.State
	stale     bool           // states, as something may have happened since
	gone      map[int]bool   // processes that were looked at too late
	changed   map[place]bool // what mapped several things while it ran one program
	users     map[uint64]string
	frames    []symbol.Frame
}

// Kernel returns the functions at an address of the kernel.
func (n *names) Kernel(pc uint64) []output.Function {
	if n.kernel == nil {
		k, err := symbol.OpenKernel(nil)
		if err != nil {
			return nil
		}
		n.kernel = k
	}
	n.frames = n.kernel.Resolve(n.frames[:0], []uint64{pc})
	return n.functions()
}

// User returns the functions at an address of a process.
func (n *names) User(p output.Process, pc uint64) []output.Function {
	st, err := n.state(p)
	if err != nil {
		n.lose(p)
		return nil
	}
	n.frames = st.Resolve(n.frames[:0], []uint64{pc})
	switch n.frames[0].Reason {
	case symbol.ReasonNoMapping, symbol.ReasonExited, symbol.ReasonNoFile:
		n.lose(p)
	case symbol.ReasonChanged:
		if n.changed == nil {
			n.changed = map[place]bool{}
		}
		n.changed[place{p, pc}] = true
	}
	return n.functions()
}

// place is an address of a process.
type place struct {
	process output.Process
	pc      uint64
}

// state returns what a process was. What it did until now is heard of first, once for all that is printed
// together.
func (n *names) state(p output.Process) (symbol.State, error) {
	if n.stale {
		n.stale = false
		clear(n.states)
		_ = n.follower.Sync() // without it, what is known is old
	}
	if st, ok := n.states[p]; ok {
		return st, nil
	}
	st, err := n.read(p)
	if err == nil {
		if n.states == nil {
			n.states = map[output.Process]symbol.State{}
		}
		n.states[p] = st
	}
	return st, err
}

func (n *names) read(p output.Process) (symbol.State, error) {
	since := p.Since(kernel.Monotonic())
	if since != 0 && n.follower != nil {
		return n.files().Since(p.PID(), since)
	}
	process, err := n.files().Process(p.PID())
	if err != nil {
		return symbol.State{}, err
	}
	return process.During(0, 0, 0), nil
}

// lose notes that an address of a process has no name because the process was looked at too late.
func (n *names) lose(p output.Process) {
	if n.gone == nil {
		n.gone = map[int]bool{}
	}
	n.gone[p.PID()] = true
}

// FilePlace returns where an address of a process is in a file.
func (n *names) FilePlace(p output.Process, pc uint64) (buildID string, offset uint64) {
	st, err := n.state(p)
	found := err == nil
	if found {
		buildID, offset, found = st.FilePlace(pc)
	}
	if !found {
		n.lose(p)
	}
	return buildID, offset
}

// files returns the processes whose addresses are named.
func (n *names) files() *symbol.Processes {
	if n.processes == nil {
		n.processes = symbol.NewProcesses(&symbol.Options{
			Source: n.source, NoInline: !n.source, DebugDirs: n.debug,
		})
	}
	return n.processes
}

func (n *names) functions() []output.Function {
	list := make([]output.Function, len(n.frames))
	for i, f := range n.frames {
		list[i] = output.Function{Name: f.Name, Offset: f.Offset, Module: f.Module, Inlined: f.Inlined}
		if n.source { // Go programs have it without being asked
			list[i].File, list[i].Line = f.File, f.Line
		}
	}
	return list
}

// Username returns the name of a user in /etc/passwd.
func (n *names) Username(uid uint64) string {
	if n.users == nil {
		n.users = map[uint64]string{}
		f, err := os.Open("/etc/passwd")
		if err != nil {
			return ""
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if fields := strings.Split(lines.Text(), ":"); len(fields) > 2 {
				if id, err := strconv.ParseUint(fields[2], 10, 64); err == nil && n.users[id] == "" {
					n.users[id] = fields[0]
				}
			}
		}
	}
	return n.users[uid]
}

// Comm returns the name of a process or thread.
func (n *names) Comm(id int) string {
	name, err := os.ReadFile("/proc/" + strconv.Itoa(id) + "/comm")
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(name), "\n")
}

// Cgroup returns the path of a control group.
func (n *names) Cgroup(id uint64) string {
	path, err := kernel.CgroupPath(id)
	if err != nil {
		return ""
	}
	return "unified:" + path
}

// close releases what was opened.
func (n *names) close() error {
	if n.processes == nil {
		return nil
	}
	return n.processes.Close()
}
