// Package tool has what every command-line tracer needs besides its probes: flags, [interval
// [count]], a Ctrl-C that never loses the summary, tables, histograms, JSON lines, recordings
// that replay without root, and a last line that reports what was lost.
//
//	func main() { os.Exit(tool.Main("forks", run)) }
//
//	type event struct {
//		Comm  action.Comm
//		Child uint32
//	}
//
//	func run(ctx context.Context, args []string, stdout *tool.Output) error {
//		t := tool.New("forks", "Trace forks: who starts whom.",
//			"forks", "forks of all processes",
//			"forks -p 181", "forks of process 181")
//		pid := t.PID()
//		if err := t.Parse(args, stdout); err != nil {
//			return err
//		}
//		events := action.NewEvents[event]("events", 0)
//		p := action.NewProgram("forks")
//		p.On(probe.Tracepoint{Group: "sched", Name: "sched_process_fork"}, func(c *action.Ctx) {
//			tool.FilterPID(c, *pid)
//			events.Emit(c, func(e *event, b *action.Bind) {
//				b.Set(&e.Comm, c.Comm())
//				b.Set(&e.Child, c.Field("child_pid"))
//			})
//		})
//		return t.Run(ctx, stdout, "Tracing forks", func(r *tool.Run) error {
//			tab := r.Table("COMM %-16s", "CHILD %7d")
//			tab.Header()
//			return tool.Each(r, events, func(e *event) error { return tab.Row(e.Comm, e.Child) })
//		}, p)
//	}
//
// The body given to Run reads through the program's handles, which behave the same on a live
// machine and with a recording. A recording made with -record is therefore the tool's test on
// machines without root. Package tooltest runs such tests.
//
// # What all tools have in common
//
// All tools have the flags -json, -record DIR, -replay DIR, -requires, -unsafe, -v and -h.
// They print a start line with what is traced and how to stop, and a last line with what was
// lost, if anything was. With -json every line of standard output is one JSON object. A
// mistake on the command line prints one line and gives exit status 2, any other error one
// line and status 1. On a terminal, headers are bold, failures are red, and
// tables that are printed repeatedly redraw in place; NO_COLOR turns colours off.
//
// Names of files, threads and functions can contain anything. Run and Output therefore
// print them without the characters that a terminal acts on, and are no io.Writer; what is
// not for a terminal, or already safe, is written with their method Raw.
//
// # Kernels
//
// Run takes several programs, best first, and uses the first one that the kernel can run. On
// kernels without trampolines fentry and fexit are replaced by kprobe and kretprobe. The flag
// -v prints what was chosen, and why.
package tool
