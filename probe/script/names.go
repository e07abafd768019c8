package script

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe/script/output"
	"github.com/borescope/borescope/symbol"
)

// names names what a running script prints. Symbols are read when the first is asked for.
type names struct {
	source    bool     // source lines and inlined calls, too
	debug     []string // where debug files are
	kernel    *symbol.Kernel
	processes *symbol.Processes
	gone      map[int]bool // processes that were looked at too late
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
func (n *names) User(pid int, pc uint64) []output.Function {
	p, err := n.files().Process(pid)
	if err != nil {
		n.lose(pid)
		return nil
	}
	n.frames = p.Resolve(n.frames[:0], []uint64{pc})
	switch n.frames[0].Reason {
	case symbol.ReasonNoMapping, symbol.ReasonExited, symbol.ReasonNoFile:
		n.lose(pid)
	}
	return n.functions()
}

// lose notes that an address of a process has no name because the process was looked at too late.
func (n *names) lose(pid int) {
	if n.gone == nil {
		n.gone = map[int]bool{}
	}
	n.gone[pid] = true
}

// FilePlace returns where an address of a process is in a file.
func (n *names) FilePlace(pid int, pc uint64) (buildID string, offset uint64) {
	p, err := n.files().Process(pid)
	found := err == nil
	if found {
		buildID, offset, found = p.FilePlace(pc)
	}
	if !found {
		n.lose(pid)
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
