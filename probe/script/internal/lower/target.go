package lower

import (
	"time"

	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script/syntax"
)

// target returns what an attach point attaches to, or nil with an error.
func (l *lowerer) target(a *syntax.AttachPoint) probe.Target {
	switch a.Provider {
	case "begin":
		return probe.Begin{}
	case "end":
		return probe.End{}
	case "tracepoint":
		return probe.Tracepoint{Group: a.Target, Name: a.Func}
	case "rawtracepoint":
		module := a.Target
		if module == "*" || module == "vmlinux" {
			module = ""
		}
		return probe.RawTracepoint{Module: module, Name: a.Func}
	case "interval", "profile":
		return l.clock(a)
	case "uprobe":
		return l.uprobe(a)
	case "uretprobe":
		return probe.Uretprobe{Path: a.Target, Symbol: a.Func, PID: l.o.Process}
	}
	l.fail(a, "programs for "+a.Provider+" probes are not supported yet")
	return nil
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
	t := probe.Uprobe{Path: a.Target, PID: l.o.Process}
	switch {
	case a.File != "":
		t.File, t.Line = a.File, int(a.Line)
	case a.Func == "":
		t.Address = a.Address
	default:
		t.Symbol, t.Offset = a.Func, a.Offset
	}
	return t
}
