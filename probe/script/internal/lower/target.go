package lower

import (
	"cmp"
	"strconv"
	"time"

	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script/syntax"
)

// target returns what an attach point attaches to, or nil with an error.
func (l *lowerer) target(a *syntax.AttachPoint) probe.Target {
	switch a.Provider {
	case "begin", "self", "test", "bench":
		return probe.Begin{}
	case "end":
		return probe.End{}
	case "tracepoint":
		return probe.Tracepoint{Group: a.Target, Name: a.Func}
	case "rawtracepoint":
		return probe.RawTracepoint{Module: module(a.Target), Name: a.Func}
	case "interval", "profile":
		return l.clock(a)
	case "uprobe":
		return l.uprobe(a)
	case "uretprobe":
		return probe.Uretprobe{Path: a.Target, Symbol: a.Func, Lang: a.Lang, PID: l.o.Process}
	case "usdt":
		return probe.USDT{Path: a.Target, Provider: a.Namespace, Name: a.Func, PID: l.o.Process}
	case "kprobe":
		return probe.Kprobe{Module: a.Target, Symbol: a.Func, Offset: a.Offset, Address: a.Address}
	case "kretprobe":
		return probe.Kretprobe{Module: a.Target, Symbol: a.Func}
	case "fentry":
		return probe.Fentry{Module: module(a.Target), Symbol: a.Func, BPF: uint32(a.ProgID)}
	case "fexit":
		return probe.Fexit{Module: module(a.Target), Symbol: a.Func, BPF: uint32(a.ProgID)}
	case "software", "hardware":
		return l.event(a)
	case "iter":
		if a.Pin != "" {
			l.missing(a, "pinning an iterator")
			return nil
		}
		return probe.Iter{Name: a.Func, PID: l.o.Process}
	case "watchpoint":
		return probe.Watchpoint{Address: a.Address, Length: int(a.Len), Mode: a.Mode, PID: cmp.Or(l.o.Process, l.o.Child)}
	}
	l.missing(a, "the probe "+a.Provider)
	return nil
}

// module returns the module that functions are restricted to, "" for any and the kernel itself.
func module(name string) string {
	if name == "*" || name == "vmlinux" || name == "bpf" {
		return ""
	}
	return name
}

// eventAliases are bpftrace's names of events that perf names otherwise.
var eventAliases = map[string]string{
	"cpu": "cpu-clock", "faults": "page-faults", "cs": "context-switches",
	"backend-stalls": "stalled-cycles-backend", "frontend-stalls": "stalled-cycles-frontend",
	"branch-instructions": "branches", "cpu-cycles": "cycles",
}

// event returns the sampling of an event, after its usual number if the script gives none.
func (l *lowerer) event(a *syntax.AttachPoint) probe.Target {
	name := a.Target
	if full := eventAliases[name]; full != "" {
		name = full
	}
	text := a.Provider + ":" + name
	if a.Freq != 0 {
		text += ":" + strconv.FormatUint(a.Freq, 10)
	}
	t, err := probe.ParseTarget(text)
	if err != nil {
		l.fail(a, err.Error())
		return nil
	}
	return t
}

var units = map[string]time.Duration{
	"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": time.Nanosecond,
}

// clock returns the timer of an interval, which fires on one CPU, or of a profile, on all.
func (l *lowerer) clock(a *syntax.AttachPoint) probe.Target {
	every := units[a.Target] * time.Duration(a.Freq)
	switch {
	case a.Provider == "interval" && a.Target == "hz":
		return probe.Perf{Every: time.Second / time.Duration(a.Freq)}
	case a.Provider == "interval":
		return probe.Perf{Every: every}
	case a.Target == "hz":
		return probe.Perf{Event: pmc.CPUClock(), Freq: a.Freq}
	}
	return probe.Perf{Event: pmc.CPUClock(), Period: uint64(every)}
}

func (l *lowerer) uprobe(a *syntax.AttachPoint) probe.Target {
	t := probe.Uprobe{Path: a.Target, Lang: a.Lang, PID: l.o.Process}
	switch {
	case a.File != "":
		t.File, t.Line, t.Column = a.File, int(a.Line), int(a.Column)
	case a.Func == "":
		t.Address = a.Address
	default:
		t.Symbol, t.Offset = a.Func, a.Offset
	}
	return t
}
