package probe

import (
	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
)

// Begin fires once, after everything else is attached. "begin".
type Begin struct{}

// End fires once, before everything else is detached. "end".
type End struct{}

func (t Begin) resolve(r *resolver) error {
	return r.run(t)
}

func (Begin) requires(q *requirer) { q.run() }

func (t Begin) list(l *lister) error { return l.put(Match{Target: t}) }

func (Begin) word() string { return "begin" }

func (t End) resolve(r *resolver) error {
	return r.run(t)
}

func (End) requires(q *requirer) { q.run() }

func (t End) list(l *lister) error { return l.put(Match{Target: t}) }

func (End) word() string { return "end" }

// String returns "begin".
func (Begin) String() string { return "begin" }

// String returns "end".
func (End) String() string { return "end" }

// run resolves begin and end, whose programs attaching and closing run once.
func (r *resolver) run(t Target) error {
	p := ProgramPlan{
		Type: ebpf.Syscall, Flags: flagSleepable, Context: ContextSyscall, Method: MethodRun,
		Sites: []Site{{Target: t, CPU: -1}},
	}
	if err := r.env.Supports(feature.SyscallProg); err != nil {
		if terr := r.env.Supports(feature.TestRunRawTP); terr != nil {
			return terr
		}
		p.Type, p.Flags, p.Context = ebpf.RawTracepoint, 0, ContextRawArgs
		p.why("syscall program", err)
	}
	r.add(p)
	return nil
}

var (
	beginSpelled = spelled{words: []string{"begin", "BEGIN"}, alone: true, parse: nothing(Begin{})}
	endSpelled   = spelled{words: []string{"end", "END"}, alone: true, parse: nothing(End{})}
)
