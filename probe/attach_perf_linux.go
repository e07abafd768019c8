package probe

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe/internal/cgroups"
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

// siteEvent returns the event of a tracepoint, kprobe or uprobe site.
func (a *attacher) siteEvent(g *ProgramPlan, s *Site) (*perfevent.Event, error) {
	if tp, ok := s.Target.(Tracepoint); ok {
		id, err := a.tracepointID(tp)
		if err != nil {
			return nil, err
		}
		attr := perfring.Attr{Type: perfring.EventTracepoint, Config: uint64(id), Sample: 1}
		return a.anyCPU(&perfevent.Event{Attr: attr, Explain: noTracepoint})
	}
	if g.UserRegs {
		return a.uprobeEvent(g, s)
	}
	return a.kprobeEvent(g, s)
}

// sampling opens a sampling site: an event on a CPU, or one for each thread of
// a process.
func (a *attacher) sampling(g *ProgramPlan, prog *ebpf.Program, s *Site) error {
	ev, err := a.samplingEvent(s)
	if err != nil {
		return err
	}
	// The plan may be of another machine, and perf_event_open accepts events that never fire.
	if err := feature.Counts(ev.What.Type, ev.What.Hardware()); err != nil {
		return err
	}
	if s.PID != 0 {
		return a.perThread(g, prog, s, ev)
	}
	if t, ok := s.Target.(Perf); ok && t.Cgroup != "" {
		dir, err := cgroups.Open(t.Cgroup)
		if err != nil {
			return err
		}
		defer dir.Close()
		ev.Cgroup = dir
	} else if s.CPU >= 0 {
		ev.Attr.ReadFormat = perfring.FormatEnabled
	}
	return a.perfEvent(g, prog, s, ev)
}

// samplingEvent encodes what a sampling site counts.
func (a *attacher) samplingEvent(s *Site) (*perfevent.Event, error) {
	ev := &perfevent.Event{PID: -1, CPU: s.CPU}
	switch t := s.Target.(type) {
	case Perf:
		ev.What = t.Event
		if t.Every != 0 {
			ev.What = pmc.CPUClock()
		}
		ev.Attr, ev.Path = ev.What.Attr(), ev.What.Path
		switch {
		case t.Every != 0:
			ev.Attr.Sample = uint64(t.Every)
		case t.Freq != 0:
			ev.Attr.Sample, ev.Attr.Flags = t.Freq, ev.Attr.Flags|perfring.AttrFreq
		default:
			ev.Attr.Sample = t.Period
		}
		if t.Event.PreciseMax {
			ev.Lower = true
			ev.Attr.Flags = ev.Attr.Flags.WithPrecise(3)
		}
	case Watchpoint:
		access, err := watchMode(t)
		if err != nil {
			return nil, err
		}
		length := t.Length
		if access == pmc.BPExec {
			length = 8 // sizeof(long), arch_build_bp_info of x86
		}
		ev.What = pmc.Breakpoint(s.Address, length, access)
		ev.Attr = ev.What.Attr()
		ev.Attr.Flags &^= perfring.AttrExcludeGuest
		ev.Attr.Sample = 1
	default:
		return nil, fmt.Errorf("no perf event for %s", s.Target)
	}
	if a.o.ExcludeKernel {
		ev.Attr.Flags |= perfring.AttrExcludeKernel
	}
	return ev, nil
}

// perThread opens the event for every thread of a process; threads that they
// start later inherit it.
//
// A thread that appears once all events are open may have inherited the event, or may
// come from a thread that had none yet; the two can't be told apart. Then everything is
// opened again, before anything is counted, until no new thread appears. A new thread
// inherits before it is in the list (copy_process, kernel/fork.c), so the list is trusted
// once each thread must have left the clone call it was in when its event was opened.
func (a *attacher) perThread(g *ProgramPlan, prog *ebpf.Program, s *Site, ev *perfevent.Event) error {
	ev.Attr.Flags |= perfring.AttrInherit
	if a.o.ExcludeChildren {
		if !feature.KernelAtLeast("5.13") {
			return &feature.UnsupportedError{
				Feature: "samples of a process without those that it starts",
				Hint:    "the kernel has no inherit_thread for perf events", Since: "5.13",
			}
		}
		ev.Attr.Flags |= perfring.AttrInheritThread
	}
	ev.CPU = -1
	before := a.progress()
	end := time.Now().Add(perThreadWait)
	for try := range perThreadTries {
		tids, err := perfevent.Threads(s.PID)
		if err != nil {
			return notexist.Errorf("no process %d", s.PID)
		}
		for _, ev.PID = range tids {
			if err := a.ctx.Err(); err != nil {
				return err
			}
			if err := a.perfEvent(g, prog, s, ev); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		perfevent.WaitForClone(s.PID, tids, end)
		now, err := perfevent.Threads(s.PID)
		if err != nil {
			return notexist.Errorf("no process %d", s.PID)
		}
		if !slices.ContainsFunc(now, func(tid int) bool { return !slices.Contains(tids, tid) }) {
			return nil
		}
		if try < perThreadTries-1 {
			if err := a.backTo(before); err != nil {
				return err
			}
			time.Sleep(min(time.Duration(try)*time.Millisecond, 10*time.Millisecond))
		}
	}
	a.link.missing = append(a.link.missing, Missing{s.Target, fmt.Errorf(
		"process %d starts threads all the time: some that it started while events were opened may be left out", s.PID)})
	return nil
}

// perThreadTries is how often everything is opened, with half a second of waiting between
// attempts. perThreadWait bounds the time spent waiting for clone calls in all.
const (
	perThreadTries = 48
	perThreadWait  = time.Second
)

// progress is how much an attacher has opened.
type progress struct{ held, sites, start, drop int }

func (a *attacher) progress() progress {
	return progress{len(a.link.held), len(a.link.sites), len(a.start), len(a.drop)}
}

// backTo closes what was opened since p.
func (a *attacher) backTo(p progress) error {
	for _, fd := range a.drop[p.drop:] {
		kernel.Close(fd)
	}
	err := closeHeld(a.link.held[p.held:])
	a.link.held, a.link.sites = a.link.held[:p.held], a.link.sites[:p.sites]
	a.start, a.drop = a.start[:p.start], a.drop[:p.drop]
	return err
}
