package probe

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/probe/internal/caps"
	"github.com/borescope/borescope/probe/internal/perfevent"
)

// perfEvent opens the event and attaches the program to it.
func (a *attacher) perfEvent(g *ProgramPlan, prog *ebpf.Program, s *Site, ev *perfevent.Event) error {
	fd, err := ev.Open()
	if err != nil {
		return a.explainOpen(ev, err)
	}
	if g.Method == MethodPerfLink {
		// Cookies came with perf links: commits 82e6b1eee6a8 and b89fbfbb854c, 5.15.
		link, err := kernel.PerfLink(prog.FD(), fd, uint64(s.Cookie))
		if err != nil {
			kernel.Close(fd)
			return a.explainSet(g, s, err)
		}
		a.keep(held{fd: link, link: true, method: MethodPerfLink}, *s)
		a.drop = append(a.drop, fd)
	} else {
		if err := kernel.SetPerfProgram(prog.FD(), fd); err != nil {
			kernel.Close(fd)
			return a.explainSet(g, s, err)
		}
		a.keep(held{fd: fd, method: MethodPerfIoctl}, *s)
	}
	if g.Type == ebpf.TracePoint {
		return nil // its program runs anyway, and lets the event go on to those that count
	}
	a.start = append(a.start, fd)
	if ev.Attr.ReadFormat != perfring.FormatEnabled {
		return nil // only an event that samples a whole CPU reports its enabled time
	}
	own, err := kernel.Dup(fd)
	if err == nil {
		a.link.clocks = append(a.link.clocks, clock{own, ev.CPU})
	}
	return err
}

// explainOpen says why perf_event_open refused an event.
func (a *attacher) explainOpen(ev *perfevent.Event, err error) error {
	if ev.Explain == nil {
		return ev.Refused(err)
	}
	switch {
	case errors.Is(err, syscall.ESRCH):
		return fmt.Errorf("no process %d: %w", ev.PID, err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("out of file descriptors: raise RLIMIT_NOFILE (ulimit -n): %w", err)
	case errors.Is(err, syscall.EACCES) && caps.Paranoid(a.env) > 2 &&
		caps.Lacks(a.env, "CAP_SYS_ADMIN"):
		return fmt.Errorf("kernel.perf_event_paranoid is %d, where this kernel gives perf events to CAP_SYS_ADMIN only: lower it to 2, or hold that: %w",
			caps.Paranoid(a.env), err)
	}
	return ev.Explain(err)
}

// onlySyscalls is why a tracepoint refuses a sleepable program.
const onlySyscalls = "only the tracepoints of system calls, sys_enter and sys_exit take programs that may sleep"

// explainSet explains why an open event refused a program.
func (a *attacher) explainSet(g *ProgramPlan, s *Site, err error) error {
	switch {
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("the program reads beyond the tracepoint's record: %w", err)
	case errors.Is(err, syscall.EEXIST):
		// bpf_prog_array_copy, kernel/bpf/core.c.
		return fmt.Errorf("the program is there already: the kernel takes each program once for a tracepoint; load it a second time: %w", err)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("64 programs on one event is the kernel's limit (BPF_TRACE_MAX_PROGS): %w", err)
	case errors.Is(err, syscall.EINVAL) && g.Type == ebpf.TracePoint && g.Sleepable():
		return fmt.Errorf("%s: %w", onlySyscalls, err)
	case errors.Is(err, syscall.EINVAL) && g.Type == ebpf.Kprobe:
		return fmt.Errorf("the program is of another type than the event, or was loaded with an attach type for multi links: %w", err)
	}
	return err
}
