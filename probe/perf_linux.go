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
	"github.com/borescope/borescope/probe/internal/perfevent"
)

// sampling opens a sampling site: an event on a CPU, or one for each thread of
// a process.
func (a *attacher) sampling(g *ProgramPlan, prog *ebpf.Program, s *Site, ev *perfevent.Event) error {
	if ev.Cgroup != nil {
		defer ev.Cgroup.Close() // the open events keep it
	}
	if a.o.ExcludeKernel {
		ev.Attr.Flags |= perfring.AttrExcludeKernel
	}
	// The plan may be of another machine, and perf_event_open accepts events that never fire.
	if err := feature.Counts(ev.What.Type, ev.What.Hardware()); err != nil {
		return err
	}
	if s.PID != 0 {
		return a.perThread(g, prog, s, ev)
	}
	if ev.Cgroup == nil && s.CPU >= 0 {
		ev.Attr.ReadFormat = perfring.FormatEnabled
	}
	return a.perfEvent(g, prog, s, ev)
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
