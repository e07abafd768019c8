package broker

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/probe"
)

// process identifies a process, also after its pid was reused.
type process struct {
	pid   int
	start uint64
	// locked is set if nothing that the process executes can ever gain privileges
	// (no_new_privs).
	locked bool
}

// processOf returns what is known of a thread group. It refuses ids of threads: a probe
// would follow that thread alone.
func processOf(pid int) (process, error) {
	p := process{pid: pid}
	stat, err := procfs.ReadStat(procfs.Root(nil), pid)
	if err != nil {
		return p, err
	}
	p.start = stat.StartTime
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return p, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		switch {
		case name == "Tgid" && value != strconv.Itoa(pid):
			return p, fmt.Errorf("%d is a thread's id: %w", pid, errNotExist)
		case name == "NSpid" && strings.Contains(value, "\t") && !initialPIDs():
			return p, &probe.UnsupportedError{
				Feature: "processes of another process namespace",
				Hint:    "the broker has to run in the initial one for that",
			}
		case name == "NoNewPrivs":
			p.locked = value == "1"
		}
	}
	return p, lines.Err()
}

// initialPIDs reports whether this is the initial process namespace
// (PROC_PID_INIT_INO, include/linux/proc_ns.h).
func initialPIDs() bool {
	var st unix.Stat_t
	return unix.Stat("/proc/self/ns/pid", &st) == nil && st.Ino == 0xEFFFFFFC
}

// owns asks the kernel whether a client could trace a process: it makes the ptrace access
// check of opening /proc/PID/mem, with the client's rights. The check covers ids,
// capabilities, the dumpable flag, user namespaces and security modules. Where Yama allows
// only ancestors to trace, the client's own process still is its own: there the check is
// that for reading.
func owns(c *session, pid int) error {
	file := "/mem"
	if pid == c.peer.PID {
		file = "/environ"
	}
	return asClient(c.rights, 0, func() error {
		fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	})
}

// denied reports whether an error means "not this client".
func denied(err error) bool {
	return errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) ||
		errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENOENT)
}

// gate has the programs of an attachment run in its processes only, and stops them as soon
// as one of these executes another program: the owner and the permissions of that program
// were not checked. Nor were those of processes that they start, which inherit samples.
//
// The kernel puts a process's uprobes into the programs that it executes too (uprobe_mmap,
// kernel/events/uprobes.c), before user space learns of it. So breakpoints are only put
// where that does no harm: see checkFile.
type gate struct {
	pids  []int
	state *ebpf.Map
	watch int // descriptor of what closes it, -1 for none
}

// newGate starts watching processes.
func newGate(pids []int) (*gate, error) {
	g := &gate{pids: pids, watch: -1}
	var err error
	g.state, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "gate", Type: ebpf.Array, KeySize: 4, ValueSize: 8,
		MaxEntries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("watch processes: %w", err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "gate", Type: ebpf.RawTracepoint, License: "Dual MIT/GPL",
		Instructions: kernel.OwnPIDNamespace().OwnIDs(kernel.CloseGate(pids, g.state.FD()), true),
	})
	if err == nil {
		g.watch, err = kernel.RawTracepoint(prog.FD(), "sched_process_exec", 0)
		prog.Close()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch processes: %w", err), g.close())
	}
	return g, nil
}

// userIP is the offset of the instruction pointer in struct bpf_perf_event_data, which
// begins with the registers (bpf_user_pt_regs_t: ip of x86, pc of arm64).
var userIP = map[string]int16{"amd64": 16 * 8, "arm64": 32 * 8}

// put puts the gate in front of programs. Samples of the kernel do not pass either unless
// kernelToo is set: a CPU's counter may stop in the kernel though it counts user mode only.
func (g *gate) put(spec *ebpf.CollectionSpec, kernelToo bool) error {
	for name, p := range spec.Programs {
		what := kernel.Gated{
			State: g.state.FD(), PIDs: g.pids, Namespace: kernel.OwnPIDNamespace(), UserIP: -1,
		}
		if at, ok := userIP[runtime.GOARCH]; ok && p.Type == ebpf.PerfEvent && !kernelToo {
			what.UserIP = at
		}
		var err error
		if p.Instructions, err = kernel.Gate(p.Instructions, what, kernel.Idle(p.Type)); err != nil {
			return fmt.Errorf("program %s: %w", name, err)
		}
	}
	return nil
}

// attachOptions returns the options for a client's own processes.
func attachOptions(kernelToo bool) *probe.AttachOptions {
	return &probe.AttachOptions{
		ExcludeKernel: !kernelToo,
		// On older kernels the gate alone keeps children out.
		ExcludeChildren: feature.KernelAtLeast("5.13"),
	}
}

// shut reports whether one of the processes has executed a program; never for a nil gate.
func (g *gate) shut() (bool, error) {
	if g == nil {
		return false, nil
	}
	var v uint64
	err := g.state.Lookup(uint32(0), &v)
	return v != 0, err
}

func (g *gate) close() error {
	if g == nil {
		return nil
	}
	var errs []error
	if g.watch >= 0 {
		errs = append(errs, kernel.Close(g.watch))
	}
	return errors.Join(append(errs, g.state.Close())...)
}
