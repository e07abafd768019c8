// Trace prints a line whenever a probe fires, with values of your choice, if a
// condition of your choice holds.
//
//	# trace 'kretprobe:vfs_read /retval > 20000/ "read %d bytes", retval'
//	Tracing... Hit Ctrl-C to end.
//	PID     TID     COMM             FUNC             MESSAGE
//	14381   14381   dd               vfs_read         read 65536 bytes
//
// See README.md.
package main

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/expr"
)

func main() { os.Exit(tool.Main("trace", run)) }

// hit is a probe that fired. Numbers and texts are in the order of the message's
// values.
type hit struct {
	Nsecs                  uint64
	Probe                  uint64
	N0, N1, N2, N3, N4, N5 uint64
	PID, TID, CPU, Spec    uint32
	Comm                   action.Comm
	S0, S1, S2             [128]byte
}

func (h *hit) numbers() []*uint64  { return []*uint64{&h.N0, &h.N1, &h.N2, &h.N3, &h.N4, &h.N5} }
func (h *hit) texts() []*[128]byte { return []*[128]byte{&h.S0, &h.S1, &h.S2} }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	t := tool.New("trace", "Print a line whenever a probe fires. A PROBE is TARGET [/FILTER/] [\"FORMAT\",\n"+
		"VALUE, ...]: a target of bpftrace's, C's expressions, printf's formats.",
		`trace 'vfs_read /arg2 > 65536/ "%d bytes", arg2'`, "large reads",
		`trace 't:sched:sched_process_exec "%s", str(args.filename)'`, "",
		`trace 'kr:do_sys_openat2 /retval < 0/ "%d", retval'`, "opens that fail")
	t.Operands("PROBE...", 1, -1)
	pid := t.PID()
	tid := t.Int("L", "TID", 0, "only this thread")
	uid := t.Int("uid", "UID", -1, "only this user")
	comm := t.String("n", "NAME", "only threads with this in their name")
	match := t.String("f", "TEXT", "only messages with this in them")
	most := t.Int("M", "N", 0, "end after so many messages")
	clock := t.Bool("T", "with the time of day")
	times := t.Bool("t", "with seconds since the first message")
	cpus := t.Bool("C", "with the CPU")
	t.Duration()
	if err := t.Parse(args, stdout); err != nil {
		return err
	}

	events := action.NewEvents[hit]("hits", 1<<20)
	p := action.NewProgram("trace")
	var messages []*message
	for i, arg := range t.Args() {
		spec, err := expr.ParseSpec(arg, *pid)
		if err != nil {
			return t.Usagef("%w", err)
		}
		m, err := parseMessage(spec)
		if err != nil {
			return t.Usagef("%s: %w", arg, err)
		}
		messages = append(messages, m)
		p.On(spec.Target, func(c *action.Ctx) {
			tool.FilterPID(c, *pid)
			tool.FilterComm(c, *comm)
			if *tid != 0 {
				c.ReturnUnless(c.TID().Eq(*tid))
			}
			if *uid >= 0 {
				c.ReturnUnless(c.UID().Eq(*uid))
			}
			expr.Filter(c, spec.Filter)
			events.Emit(c, func(h *hit, b *action.Bind) {
				b.Set(&h.Nsecs, c.Nsecs())
				b.Set(&h.Probe, c.Probe())
				b.Set(&h.PID, c.PID())
				b.Set(&h.TID, c.TID())
				b.Set(&h.CPU, c.CPU())
				b.Set(&h.Spec, i)
				b.Set(&h.Comm, c.Comm())
				m.bind(h, b)
			})
		})
	}

	return t.Run(ctx, stdout, "Tracing", func(s *tool.Session) error {
		tab := s.Table("TIME %-8s", "TIME(s) %-10.6f", "CPU %-3d", "PID %-7d", "TID %-7d", "COMM %-15s", "FUNC %-16s", "MESSAGE %s")
		tab.Show("TIME", *clock).Show("TIME(s)", *times).Show("CPU", *cpus).Header()
		var first uint64
		shown := 0
		return tool.Each(s, events, func(h *hit) error {
			text := messages[h.Spec].format(h)
			if !strings.Contains(text, *match) {
				return nil
			}
			if first == 0 {
				first = h.Nsecs
			}
			tab.Row(s.Time(h.Nsecs).Format("15:04:05"), float64(h.Nsecs-first)/1e9, h.CPU, h.PID, h.TID, h.Comm, function(s.Probe(h.Probe)), text)
			if shown++; shown == *most {
				return io.EOF
			}
			return nil
		})
	}, p)
}

// function is the last part of a probe's name.
func function(probe string) string {
	probe, _, _ = strings.Cut(probe, " ")
	return probe[strings.LastIndexByte(probe, ':')+1:]
}
