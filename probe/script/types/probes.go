package types

import (
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/script/syntax"
)

// special reports whether bpftrace itself runs a probe.
func special(a *syntax.AttachPoint) bool {
	switch a.Provider {
	case "begin", "end", "self":
		return true
	}
	return false
}

// probeType returns the value of probetype.
func probeType(a *syntax.AttachPoint) string {
	if special(a) {
		return "special"
	}
	if a.Provider == "bench" {
		return "benchmark"
	}
	return a.Provider
}

// hasRegisters reports whether a probe has the registers of the place where it fired.
func hasRegisters(a *syntax.AttachPoint) bool {
	return rowOf("reg").In(a.Provider)
}

// space returns the address space of the addresses that a probe provides.
func space(p *syntax.Probe) Space {
	if p == nil {
		return NoSpace
	}
	switch p.Points[0].Provider {
	case "kprobe", "kretprobe", "fentry", "fexit", "tracepoint", "iter", "rawtracepoint":
		return KernelSpace
	case "uprobe", "uretprobe", "usdt":
		return UserSpace
	}
	return NoSpace
}

// pointName returns an attach point's name, the value of probe.
func pointName(a *syntax.AttachPoint) string {
	if a.Label != "" {
		return a.Label
	}
	var b strings.Builder
	b.WriteString(a.Provider)
	part := func(s string) {
		if s != "" {
			b.WriteString(":" + s)
		}
	}
	number := func(n uint64) {
		if n != 0 {
			b.WriteString(":" + strconv.FormatUint(n, 10))
		}
	}
	part(a.Target)
	part(a.Lang)
	part(a.Namespace)
	number(a.ProgID)
	part(a.Func)
	if a.Func != "" && a.Offset != 0 {
		b.WriteString("+" + strconv.FormatUint(a.Offset, 10))
	}
	number(a.Address)
	number(a.Freq)
	number(a.Len)
	part(a.Mode)
	return b.String()
}
