package main

import (
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

// event is an event of a request. key returns the key of the request.
type event struct {
	target probe.Target
	key    func(c *action.Ctx) action.Tuple
}

// The tracepoints of a request.
const insert, issue, complete = "block_rq_insert", "block_rq_issue", "block_rq_complete"

// programs returns the ways to time requests, the best first. A request's address is known
// without the tracepoints' records, which contain its disk and flags.
func programs(m *maps, o *options) (all []*action.Program) {
	begin := []string{issue}
	if o.queued {
		begin = []string{insert, issue} // requests without a queue are only issued
	}
	if !o.disks && !o.flags && o.only == "" {
		end := raw(complete, 0)
		if o.queued { // one event, not two: a tracepoint since Linux 6.5, a function before
			all = append(all, program(m, o, end, raw("block_io_start", 0)),
				program(m, o, end, event{probe.Kprobe{Symbol: "blk_account_io_start"}, address(0)}))
		}
		// Before Linux 5.11 the queue is the first argument (commit a54895fa057c).
		for i := range 2 {
			var events []event
			for _, name := range begin {
				events = append(events, raw(name, i))
			}
			all = append(all, program(m, o, end, events...))
		}
	}
	var events []event
	for _, name := range begin {
		events = append(events, record(name))
	}
	return append(all, program(m, o, record(complete), events...))
}

func raw(name string, arg int) event { return event{probe.RawTracepoint{Name: name}, address(arg)} }

// address returns the key of the request that an argument points to.
func address(arg int) func(c *action.Ctx) action.Tuple {
	return func(c *action.Ctx) action.Tuple {
		// The address is that of a field which only struct request has: if the argument has
		// another type, the program does not compile, and the next one is tried.
		return action.Key(c.Arg(arg).Ptr().Addr("__sector").Int(), uint32(0))
	}
}

func record(name string) event {
	return event{tool.Tracepoints("block", name), func(c *action.Ctx) action.Tuple {
		return action.Key(c.Field("sector"), c.Field("dev"))
	}}
}

// program measures the time from the first of the events in begin to the end of each request.
func program(m *maps, o *options, end event, begin ...event) *action.Program {
	p := action.NewProgram("biolatency")
	p.IncludeSelf = true // requests complete in the context of whichever thread they interrupt
	for i, e := range begin {
		p.On(e.target, func(c *action.Ctx) {
			set := func() { m.starts.Set(c, e.key(c), c.Nsecs()) }
			if i == 0 {
				set()
				return
			}
			// Not Create, which takes a free entry of the map before it looks for the key.
			c.If(m.starts.Has(c, e.key(c)).Not(), set)
		})
	}
	p.On(end.target, func(c *action.Ctx) {
		m.starts.Take(c, end.key(c), func(t0 action.Int) {
			of := []any{0, ""}
			if o.disks || o.only != "" {
				of[0] = c.Field("dev")
			}
			if o.flags {
				of[1] = c.Field("rwbs").Str(8)
			}
			took := c.Let(c.Nsecs().Sub(t0).Div(o.per))
			m.lats.Observe(c, took, of...)
			if o.extended {
				m.sums.Observe(c, took, of...)
			}
		})
	})
	return p
}
