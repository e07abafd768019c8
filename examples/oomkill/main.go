// Oomkill prints a line whenever the kernel kills a process because memory has run out: the
// process that needed memory, the process that was killed, and the memory that it had.
//
//	# oomkill
//	Tracing OOM kills... Hit Ctrl-C to end.
//	21:03:39 Triggered by PID 3297 ("ntpd"), OOM kill of PID 22516 ("perl"),
//	  1512448 kB resident, loadavg: 0.99 0.39 0.30 3/282 22724
//
// See README.md.
package main

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("oomkill", run)) }

// kill is a process that was chosen to be killed.
type kill struct {
	Nsecs, TotalVM, Anon, File, Shmem uint64 // sizes in kB
	PID, Victim                       uint32
	Detailed                          uint32 // whether the record has more than the victim's number
	Comm, VictimComm                  action.Comm
}

// killed is a kill as -json prints it.
type killed struct {
	Time       string `json:"time"`
	PID        uint32 `json:"pid"`
	Comm       string `json:"comm"`
	Victim     uint32 `json:"victim"`
	VictimComm string `json:"victim_comm,omitempty"`
	TotalVM    uint64 `json:"total_vm_kb,omitempty"`
	Resident   uint64 `json:"resident_kb,omitempty"`
	Load       string `json:"loadavg"`
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("oomkill",
		"Trace kills by the kernel when memory has run out, in the machine or in a\n"+
			"memory cgroup: who needed memory, and who was killed.",
		"oomkill", "until Ctrl-C",
		"oomkill -d 3600", "for an hour")
	t.Duration()
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	events := action.NewEvents[kill]("kills", 0)
	// In older kernels the record has only the victim's number, and the raw tracepoint's
	// argument is not its task.
	tasks, detailed, plain := program(events, true, true), program(events, true, false),
		program(events, false, false)

	return t.Run(ctx, stdout, "Tracing OOM kills", func(r *tool.Run) error {
		host, err := r.Host()
		if err != nil {
			return err
		}
		dying := map[uint32]uint64{} // when each process was last marked, in ns
		return tool.Each(r, events, func(e *kill) error {
			if again(dying, e) {
				return nil
			}
			load, err := fs.ReadFile(host, "proc/loadavg")
			if err != nil {
				return err
			}
			k := killed{
				Time: r.Time(e.Nsecs).Format("15:04:05"), PID: e.PID, Comm: e.Comm.String(), Victim: e.Victim,
				VictimComm: e.VictimComm.String(), TotalVM: e.TotalVM, Resident: e.Anon + e.File + e.Shmem,
				Load: strings.TrimSpace(string(load)),
			}
			r.JSON(k)
			r.Printf("%s Triggered by PID %d (%q), OOM kill of PID %d", k.Time, k.PID, k.Comm, k.Victim)
			if e.Detailed != 0 {
				r.Printf(" (%q),\n  %d kB resident", k.VictimComm, k.Resident)
			}
			r.Printf(", loadavg: %s\n", k.Load)
			return nil
		})
	}, tasks, detailed, plain)
}

// dies is the time after a mark in which another mark of the same process belongs to the same
// kill: no new process gets its number and runs out of memory so soon.
const dies = 10_000_000_000 // ns

// again reports whether a kill was printed already. A thread of a killed process that needs
// memory on its way out is marked as well, so that it gets some (task_will_free_mem in the
// kernel's mm/oom_kill.c).
func again(dying map[uint32]uint64, e *kill) bool {
	maps.DeleteFunc(dying, func(_ uint32, at uint64) bool { return e.Nsecs > at+dies })
	_, ok := dying[e.Victim]
	dying[e.Victim] = e.Nsecs
	return ok
}

func program(events *action.Events[kill], detailed, tasks bool) *action.Program {
	p := action.NewProgram("oomkill")
	// The record has the victim's number in the initial pid namespace. The raw tracepoint has
	// its task, and so its number in this tool's namespace; it is attached first, and so
	// fires first.
	victims := action.NewLRU[uint32, uint32]("victims", 0)
	if tasks {
		p.On(probe.RawTracepoint{Name: "mark_victim"}, func(c *action.Ctx) {
			victim := c.Arg(0).Ptr()
			victims.Set(c, victim.Member("pid"), victim.TaskPID())
		})
	}
	// The tracepoint fires in the thread that needed memory.
	p.On(probe.Tracepoint{Group: "oom", Name: "mark_victim"}, func(c *action.Ctx) {
		victim := c.Let(c.Field("pid"))
		// If the victim is this thread, it belongs to a killed process and needs more memory.
		process := action.Select(victim.Eq(c.TID()), c.PID(), victim)
		if tasks {
			own := victims.Get(c, victim)
			process = action.Select(own.Ne(0), own, process)
		}
		events.Emit(c, func(e *kill, b *action.Bind) {
			b.Set(&e.Nsecs, c.Nsecs())
			b.Set(&e.PID, c.PID())
			b.Set(&e.Comm, c.Comm())
			b.Set(&e.Victim, process)
			if !detailed {
				return
			}
			b.Set(&e.Detailed, 1)
			b.Set(&e.VictimComm, c.Field("comm").Str(16))
			b.Set(&e.TotalVM, c.Field("total_vm"))
			b.Set(&e.Anon, c.Field("anon_rss"))
			b.Set(&e.File, c.Field("file_rss"))
			b.Set(&e.Shmem, c.Field("shmem_rss"))
		})
	})
	return p
}
