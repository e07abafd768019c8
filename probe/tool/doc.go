// Package tool is what every command-line tracer needs besides its probes: flags,
// [interval [count]], Ctrl-C that never loses the summary, tables, histograms,
// JSON lines, recordings that replay without root, and a last line that says
// what was lost.
//
//	func main() { os.Exit(tool.Main("forks", run)) }
//
//	type event struct {
//		Comm  action.Comm
//		Child uint32
//	}
//
//	func run(ctx context.Context, args []string, stdout io.Writer) error {
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
//		return t.Run(ctx, stdout, "Tracing forks", func(s *tool.Session) error {
//			tab := s.Table("COMM %-16s", "CHILD %7d")
//			tab.Header()
//			return tool.Each(s, events, func(e *event) error { return tab.Row(e.Comm, e.Child) })
//		}, p)
//	}
//
// The body given to Run reads through the program's handles and cannot tell a
// live machine from a recording: a recording made with -record is the tool's
// test on machines without root. Package tooltest has the tests.
//
// # What all tools have in common
//
// The flags -json, -record DIR, -replay DIR, -requires, -v and -h; a start line that says
// what is traced and how to stop; a last line with what was lost, if anything
// was. With -json every line of standard output is one JSON object. A mistake on
// the command line is one line and exit status 2, anything else that goes wrong
// one line and status 1. On a terminal, and nowhere else, headers stand out,
// failures are red, and tables that are shown again and again replace each other;
// NO_COLOR turns colours off.
//
// # Kernels
//
// Run takes several programs, best first, and uses the first one that the kernel
// can run; fentry and fexit become kprobe and kretprobe by themselves where
// there are no trampolines. What was chosen, and why, is said under -v.
package tool
