package main

import (
	"fmt"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
)

// ourProgram is the action written with package action.
func ourProgram(name string) (*action.Program, error) {
	p := action.NewProgram(name)
	enter, leave := probe.RawTracepoint{Name: "sys_enter"}, probe.RawTracepoint{Name: "sys_exit"}
	switch name {
	case "empty":
		p.On(enter, nil)
	case "comm":
		calls := action.NewCounter[action.Comm]("calls", 10240)
		p.On(enter, func(c *action.Ctx) { calls.Inc(c, c.Comm()) })
	case "stack":
		stacks := action.NewCounter[[127]uint64]("stacks", 1024)
		p.On(enter, func(c *action.Ctx) { stacks.Inc(c, c.Kstack(127)) })
	case "tpstack":
		stacks := action.NewCounter[[127]uint64]("stacks", 1024)
		p.On(probe.Tracepoint{Group: "raw_syscalls", Name: "sys_enter"}, func(c *action.Ctx) { stacks.Inc(c, c.Kstack(127)) })
	case "latency":
		start := action.NewHash[uint32, uint64]("start", 10240)
		lat := action.NewHist("lat")
		p.On(enter, func(c *action.Ctx) { start.Set(c, c.TID(), c.Nsecs()) })
		p.On(leave, func(c *action.Ctx) {
			start.Take(c, c.TID(), func(t0 action.Int) { lat.Observe(c, c.Nsecs().Sub(t0)) })
		})
	default:
		return nil, fmt.Errorf("no action %q", name)
	}
	return p, nil
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
