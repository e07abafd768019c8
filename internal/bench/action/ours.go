package main

import (
	"fmt"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
)

// ourProgram returns an action's program, written with package action.
func ourProgram(name string) (*action.Program, error) {
	p := action.NewProgram(name)
	enter, leave := probe.RawTracepoint{Name: "sys_enter"}, probe.RawTracepoint{Name: "sys_exit"}
	switch name {
	case "empty":
		p.On(enter, func(*action.Ctx) {})
	case "comm":
		calls := action.NewCounter[action.Comm]("calls", 4096)
		p.On(enter, func(c *action.Ctx) { calls.Inc(c, c.Comm()) })
	case "fields":
		parents := action.NewCounter[int32]("parents", 4096)
		p.On(enter, func(c *action.Ctx) { parents.Inc(c, c.CurTask().Member("real_parent->tgid")) })
	case "opens":
		return opens(p), nil
	case "stack":
		stacks := action.NewCounter[[127]uint64]("stacks", 4096)
		p.On(enter, func(c *action.Ctx) { stacks.Inc(c, c.Kstack(127)) })
	case "tpstack":
		stacks := action.NewCounter[[127]uint64]("stacks", 4096)
		p.On(probe.Tracepoint{Group: "raw_syscalls", Name: "sys_enter"}, func(c *action.Ctx) {
			stacks.Inc(c, c.Kstack(127))
		})
	case "latency":
		start := action.NewHash[uint32, uint64]("start", 4096)
		lat := action.NewHist[action.None]("lat", 1)
		p.On(enter, func(c *action.Ctx) { start.Set(c, c.TID(), c.Nsecs()) })
		p.On(leave, func(c *action.Ctx) {
			start.Take(c, c.TID(), func(t0 action.Int) { lat.Observe(c, c.Nsecs().Sub(t0)) })
		})
	default:
		return nil, fmt.Errorf("no action %q", name)
	}
	return p, nil
}

// openEvent is the record of a call of openat.
type openEvent struct {
	PID, Parent int32
	Start       uint64
	Comm        action.Comm
	Name        [128]byte
}

// opens adds opensnoop's program, with values from the kernel's structures by BTF.
func opens(p *action.Program) *action.Program {
	ev := action.NewEvents[openEvent]("opens", 0)
	p.On(probe.Tracepoint{Group: "syscalls", Name: "sys_enter_openat"}, func(c *action.Ctx) {
		ev.Emit(c, func(e *openEvent, b *action.Bind) {
			b.Set(&e.PID, c.PID())
			b.Set(&e.Parent, c.CurTask().Member("real_parent->tgid"))
			b.Set(&e.Start, c.CurTask().Member("start_time"))
			b.Set(&e.Comm, c.Comm())
			b.Set(&e.Name, c.Field("filename").UserStr(128))
		})
	})
	return p
}

func attachOurs(name string) (func(), error) { return attachAction(name, false) }

func attachOursAll(name string) (func(), error) { return attachAction(name, true) }

func attachAction(name string, all bool) (func(), error) {
	p, err := ourProgram(name)
	if err != nil {
		return nil, err
	}
	p.IncludeSelf = all
	s, err := action.Attach(p, nil)
	if err != nil {
		return nil, err
	}
	return func() { _ = s.Close() }, nil
}
