// Trace prints a line with values of your choice whenever a probe fires and a condition of
// your choice holds.
//
//	# trace 'kretprobe:vfs_read /(int64)retval > 20000/ "read %d bytes", retval'
//	Tracing... Hit Ctrl-C to end.
//	PID     TID     COMM             FUNC             MESSAGE
//	14381   14381   dd               vfs_read         read 65536 bytes
//
// See README.md.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/spec"
)

func main() { os.Exit(tool.Main("trace", run)) }

// hit is a firing of a probe. The numbers and the texts are in the order of the message's
// values.
type hit struct {
	Nsecs                  uint64
	Probe                  uint64
	N0, N1, N2, N3, N4, N5 uint64
	PID, TID, CPU, Spec    uint32
	Comm                   action.Comm
	S0, S1, S2             text
	Kernel, User           [frames]uint64 // of -K and -U
}

// maxText is the most bytes of a text in a message, and text one with its NUL.
const maxText = 127

type text = [maxText + 1]byte

// frames is the number of frames of a stack that are printed.
const frames = 24

func (h *hit) numbers() []*uint64 { return []*uint64{&h.N0, &h.N1, &h.N2, &h.N3, &h.N4, &h.N5} }
func (h *hit) texts() []*text     { return []*text{&h.S0, &h.S1, &h.S2} }

// options holds the parsed command line.
type options struct {
	*tool.Tool
	pid, tid, uid, most, pages *int
	comm, match, cgroup        *string
	clock, times, cpus, unix   *bool
	kernel, user, addresses    *bool
	aggregate, self            *bool
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	tr := &tracer{options: o, events: action.NewEvents[hit]("hits", *o.pages<<12)}
	p, err := tr.program()
	if err != nil {
		return err
	}
	o.Options.Resolve = spec.Resolve(tr.probes)
	return o.Run(ctx, stdout, "Tracing", tr.show, p)
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("trace",
		"Print a line whenever a probe fires. A PROBE is TARGET [/FILTER/] [\"FORMAT\",\n"+
			"VALUE, ...]: a target, expressions and a format of bpftrace's language.",
		`trace 'vfs_read /arg2 > 65536/ "%d bytes", arg2'`, "large reads",
		`trace 't:sched:sched_process_exec "%s", str(args.filename)'`, "",
		`trace 'kr:vfs_open /(int32)retval < 0/ "%d", (int32)retval'`, "failures")
	t.Operands("PROBE...", 1, -1)
	o := &options{
		Tool:      t,
		pid:       t.PID(),
		tid:       t.TID("L,tid"),
		uid:       t.UID("uid"),
		comm:      t.String("n,name", "NAME", "only threads with this in their name"),
		match:     t.String("f,msg-filter", "TEXT", "only messages with this in them"),
		most:      t.Int("M,max-events", "N", 0, "end after N messages"),
		clock:     t.Bool("T,time", "with the time of day"),
		times:     t.Bool("t,timestamp", "with seconds since the first message"),
		cpus:      t.Bool("C,print_cpu", "with the CPU"),
		unix:      t.Bool("u,unix-timestamp", "-t with the time since 1970"),
		kernel:    t.Bool("K,kernel-stack", "with the kernel's stack"),
		user:      t.Bool("U,user-stack", "with the user's stack"),
		addresses: t.Bool("a,address", "with addresses in stacks"),
		aggregate: t.Bool("A,aggregate", "count messages that are the same, until the end"),
		self:      t.Bool("S,include-self", "also what trace itself does"),
		cgroup:    t.String("c,cgroup-path", "PATH", "only in this cgroup"),
		pages:     t.Int("b,buffer-pages", "N", 256, "a buffer of N pages of 4 KiB"),
	}
	t.Duration()
	return o, t.Parse(args, stdout)
}

// tracer holds the probes, and their events.
type tracer struct {
	*options
	probes []*spec.Probe
	events *action.Events[hit]
	group  uint64 // of -c
}

// program emits an event when a probe of the command line fires.
func (tr *tracer) program() (_ *action.Program, err error) {
	if *tr.cgroup != "" && !tr.Replaying() {
		if tr.group, err = action.CgroupID(*tr.cgroup); err != nil {
			return nil, err
		}
	}
	o := &spec.Options{PID: *tr.pid, Printf: true, MaxText: maxText}
	if tr.probes, err = spec.Parse(tr.Tool, tr.Args(), o); err != nil {
		return nil, err
	}
	p := action.NewProgram("trace")
	p.IncludeSelf = *tr.self
	for i, pr := range tr.probes {
		if err := tr.fits(pr); err != nil {
			return nil, err
		}
		for _, a := range pr.Actions {
			p.On(a.Target, func(c *action.Ctx) {
				tr.filter(c)
				a.Run(c)
				tr.emit(c, i, a.Values)
			})
		}
	}
	return p, nil
}

func (tr *tracer) filter(c *action.Ctx) {
	tool.FilterPID(c, *tr.pid)
	tool.FilterComm(c, *tr.comm)
	tool.FilterTID(c, *tr.tid)
	tool.FilterUID(c, *tr.uid)
	if *tr.cgroup != "" {
		c.ReturnUnless(c.Cgroup().Eq(tr.group))
	}
}

// emit emits an event of the command line's probe i with its values.
func (tr *tracer) emit(c *action.Ctx, i int, values []*ir.Expr) {
	tr.events.Emit(c, func(h *hit, b *action.Bind) {
		b.Set(&h.Nsecs, c.Nsecs())
		b.Set(&h.Probe, c.Probe())
		b.Set(&h.PID, c.PID())
		b.Set(&h.TID, c.TID())
		b.Set(&h.CPU, c.CPU())
		b.Set(&h.Spec, i)
		b.Set(&h.Comm, c.Comm())
		bind(h, b, tr.probes[i].Values, values)
		if *tr.kernel {
			b.Set(&h.Kernel, c.Kstack(frames))
		}
		if *tr.user {
			b.Set(&h.User, c.Ustack(frames))
		}
	})
}

// show prints messages as events arrive or, with -A, counts them.
func (tr *tracer) show(r *tool.Run) error {
	tab := r.Table("TIME %-8s", "TIME(s) %-10.6f", "CPU %-3d", "COUNT %-7d", "PID %-7d", "TID %-7d",
		"COMM %-15s", "FUNC %-16s", "MESSAGE %s")
	one := !*tr.aggregate // a line for each
	tab.Show("TIME", *tr.clock && one).Show("TIME(s)", *tr.times && one).Show("CPU",
		*tr.cpus).Show("COUNT", !one).Header()
	lines := 0
	same := map[line]int{}
	err := tool.Each(r, tr.events, func(h *hit) error {
		text := message(h, tr.probes[h.Spec])
		if !strings.Contains(text, *tr.match) {
			return nil
		}
		l := line{pid: h.PID, tid: h.TID, comm: h.Comm, function: function(r.Probe(h.Probe)), text: text}
		if *tr.aggregate {
			l.cpu = h.CPU
			same[l]++
		} else {
			tab.Row(r.Time(h.Nsecs).Format("15:04:05"), tr.at(r, h), h.CPU, 1, h.PID, h.TID, h.Comm,
				l.function, text)
			stacks(r, h, *tr.addresses)
		}
		if lines++; lines == *tr.most {
			return io.EOF
		}
		return nil
	})
	for _, l := range tool.Largest(same, func(n int) int64 { return int64(n) }) {
		tab.Row("", 0.0, l.cpu, same[l], l.pid, l.tid, l.comm, l.function, l.text)
	}
	return err
}

// at returns the time of an event in seconds, for -t.
func (tr *tracer) at(r *tool.Run, h *hit) float64 {
	if *tr.unix {
		return float64(r.Time(h.Nsecs).UnixMicro()) / 1e6
	}
	return r.Seconds(h.Nsecs)
}

// line is the key of -A's counts.
type line struct {
	pid, tid       uint32
	comm           action.Comm
	function, text string
	cpu            uint32
}

// stacks prints the stacks of an event below its line.
func stacks(r *tool.Run, h *hit, addresses bool) {
	for _, part := range []struct {
		what  string
		pcs   []uint64
		names func([]uint64) []string
	}{
		{"kernel", h.Kernel[:], r.KernelNames},
		{"user", h.User[:], func(pcs []uint64) []string { return r.UserNamesAt(int(h.PID), h.Nsecs, pcs) }},
	} {
		var names []string
		for i, pc := range part.pcs {
			if pc == 0 {
				break
			}
			call := pc
			if i > 0 {
				call-- // a return address may be the start of the next function
			}
			// Names are looked up one by one, because inlined functions have no address of
			// their own.
			more := part.names([]uint64{call})
			if addresses && len(more) > 0 {
				more[len(more)-1] = fmt.Sprintf("%016x %s", pc, more[len(more)-1])
			}
			names = append(names, more...)
		}
		r.Stack(names)
		if names != nil {
			r.JSON(map[string][]string{part.what: names})
		}
	}
}

// function returns the last part of a probe's name.
func function(probe string) string {
	probe, _, _ = strings.Cut(probe, " ")
	return probe[strings.LastIndexByte(probe, ':')+1:]
}
