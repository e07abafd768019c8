package attach

import (
	"slices"
	"strings"

	"github.com/borescope/borescope/probe/script/syntax"
)

// fields parses the parts by the provider's grammar.
func (a *attacher) fields() error {
	n := len(a.parts)
	switch a.Provider {
	case "begin", "end":
		if n == 2 && a.parts[1] == "*" {
			return nil
		}
		if n != 1 {
			return a.strictCount(0)
		}
		return nil
	case "self":
		if n != 3 {
			return a.strictCount(2)
		}
		a.Target, a.Func = a.parts[1], a.parts[2]
		return nil
	case "test", "bench":
		if n != 2 {
			return a.strictCount(1)
		}
		a.Target = a.parts[1]
		return nil
	case "kprobe", "kretprobe":
		return a.kprobe()
	case "uprobe", "uretprobe":
		return a.uprobe()
	case "usdt":
		return a.usdt()
	case "tracepoint", "rawtracepoint":
		return a.tracepoint()
	case "profile", "interval":
		return a.timer()
	case "software", "hardware":
		return a.event()
	case "watchpoint":
		return a.watchpoint()
	case "fentry", "fexit":
		return a.fentry()
	case "iter":
		return a.iterator()
	}
	return refuse("Invalid probe type: %s", a.Provider)
}

// strictCount is count, but never drops the point.
func (a *attacher) strictCount(want ...int) error {
	a.Wild = false
	return a.count(want...)
}

func (a *attacher) kprobe() error {
	switch len(a.parts) {
	case 2:
	case 3:
		a.Target = a.parts[1]
	default:
		return a.count(1, 2)
	}
	name := a.parts[len(a.parts)-1]
	if strings.Contains(name, "+") {
		return a.offset(name, a.Provider == "kprobe")
	}
	addr, err := syntax.ParseInteger(name)
	if err != nil {
		a.Func = name
		return nil
	}
	if !a.Unsafe {
		return refuse("Probing by address requires --unsafe")
	}
	a.Address = addr
	return nil
}

// offset parses name+offset.
func (a *attacher) offset(name string, allowed bool) error {
	switch {
	case !allowed:
		return refuse("Offset not allowed")
	case strings.Count(name, "+") > 1:
		return refuse("Cannot take more than one offset")
	}
	fn, off, _ := strings.Cut(name, "+")
	if fn == "" || off == "" {
		return refuse("Invalid offset")
	}
	n, err := syntax.ParseInteger(off)
	if err != nil {
		return refuse("Invalid offset: %v", err)
	}
	a.Func, a.Offset = fn, n
	return nil
}

func (a *attacher) uprobe() error {
	if n := len(a.parts); a.Process && (n == 2 || n == 3 && a.parts[1] == "cpp") {
		a.parts = slices.Insert(a.parts, 1, "") // the process's executable
	}
	n := len(a.parts)
	if n > 2 && a.parts[2] == "@" {
		return a.sourceLine()
	}
	if n != 3 && n != 4 {
		return a.count(2, 3)
	}
	if n == 4 {
		a.Lang = a.parts[2]
	}
	a.Target = a.parts[1]
	name := a.parts[n-1]
	if strings.Contains(name, "+") {
		return a.offset(name, a.Provider == "uprobe")
	}
	addr, err := syntax.ParseInteger(name)
	if err != nil {
		a.Func = name
		return nil
	}
	if wildcard(a.Target) {
		return refuse("Cannot use wildcards with absolute address")
	}
	a.Address = addr
	return nil
}

// sourceLine parses uprobe:TARGET@FILE:LINE[:COL].
func (a *attacher) sourceLine() error {
	a.Target = a.parts[1]
	n := len(a.parts)
	switch {
	case a.Provider != "uprobe":
		return refuse("Source code location not allowed")
	case wildcard(a.Target):
		return refuse("Cannot use wildcards with source code location")
	case n != 5 && n != 6 || a.parts[3] == "" || a.parts[4] == "":
		return refuse("Invalid uprobe arguments, expected format: uprobe:TARGET@FILE:LINE[:COL]")
	}
	a.File = a.parts[3]
	var err error
	if a.Line, err = syntax.ParseInteger(a.parts[4]); err != nil {
		return refuse("Invalid line number: %v", err)
	}
	if n == 6 {
		if a.Column, err = syntax.ParseInteger(a.parts[5]); err != nil {
			return refuse("Invalid column number: %v", err)
		}
	}
	return nil
}

func (a *attacher) usdt() error {
	if a.Process && len(a.parts) == 2 {
		a.parts = slices.Insert(a.parts, 1, "")
	}
	switch len(a.parts) {
	case 3:
		a.Target, a.Func = a.parts[1], a.parts[2]
	case 4:
		a.Target, a.Namespace, a.Func = a.parts[1], a.parts[2], a.parts[3]
	default:
		return a.count(2, 3)
	}
	return nil
}

func (a *attacher) tracepoint() error {
	n := len(a.parts)
	raw := a.Provider == "rawtracepoint"
	switch {
	case n == 3:
		a.Target, a.Func = a.parts[1], a.parts[2]
	case n == 2 && (raw || wildcard(a.parts[1])):
		a.Target, a.Func = "*", a.parts[1]
	case raw:
		return a.count(2, 1)
	default:
		return a.count(2)
	}
	return nil
}

// timer parses interval:5ms, or interval:ms:5.
func (a *attacher) timer() error {
	rate := func(s string) (uint64, error) {
		n, err := syntax.ParseInteger(s)
		if err != nil {
			return 0, refuse("Invalid rate of %s probe: %v", a.Provider, err)
		}
		return n, nil
	}
	switch len(a.parts) {
	case 2:
		if wildcard(a.parts[1]) {
			a.Target = a.parts[1] // for listing
			return nil
		}
		n, err := rate(a.parts[1])
		if err != nil {
			return err
		}
		if n < 1000 {
			return refuse("Invalid rate of %s probe. Minimum is 1000 or 1us. Found: %d nanoseconds",
				a.Provider, n)
		}
		a.Target, a.Freq = "us", n/1000
		return nil
	case 3:
		n, err := rate(a.parts[2])
		a.Target, a.Freq = a.parts[1], n
		return err
	}
	return a.strictCount(1, 2)
}

// event parses software:name:count.
func (a *attacher) event() error {
	n := len(a.parts)
	if n != 2 && n != 3 {
		return a.count(1, 2)
	}
	a.Target = a.parts[1]
	if n == 2 || a.parts[2] == "*" {
		return nil
	}
	count, err := syntax.ParseInteger(a.parts[2])
	if err != nil {
		return refuse("Invalid count for %s probe: %v", a.Provider, err)
	}
	a.Freq = count
	return nil
}

func (a *attacher) watchpoint() error {
	if len(a.parts) != 4 {
		return a.strictCount(3)
	}
	var err error
	if a.Address, err = syntax.ParseInteger(a.parts[1]); err != nil {
		return refuse("Invalid function/address argument: %v", err)
	}
	if a.Len, err = syntax.ParseInteger(a.parts[2]); err != nil {
		return refuse("Invalid length argument: %v", err)
	}
	a.Mode = a.parts[3]
	return nil
}

// fentry parses fentry[:module]:function and fentry:bpf[:id]:program.
func (a *attacher) fentry() error {
	n := len(a.parts)
	switch {
	case n < 2 || n > 4:
		return a.count(1, 3)
	case a.parts[1] == "bpf" && n == 2:
		return refuse("the 'bpf' variant of this probe requires a bpf program name and optional " +
			"bpf program id")
	case a.parts[1] == "bpf":
		a.Target, a.Func = "bpf", a.parts[n-1]
		if n == 4 && a.parts[2] != "*" {
			id, err := syntax.ParseInteger(a.parts[2])
			if err != nil {
				return refuse("bpf program id must be a number or '*'")
			}
			a.ProgID = id
		}
	case n == 4:
		return refuse("Only the 'bpf' variant of this probe supports 4 arguments")
	case n == 3:
		a.Target, a.Func = a.parts[1], a.parts[2]
	default:
		a.Func = a.parts[1]
		if wildcard(a.Func) {
			a.Target = "*"
		}
	}
	return nil
}

func (a *attacher) iterator() error {
	n := len(a.parts)
	switch {
	case n != 2 && n != 3:
		if a.Wild {
			return errSkip
		}
		return refuse("iter probe type takes 2 arguments (1 optional)")
	case a.iter:
		return refuse("iter probe only supports one attach point.")
	case wildcard(a.parts[1]) || n == 3 && wildcard(a.parts[2]):
		return refuse("iter probe type does not support wildcards")
	}
	a.iter = true
	a.Func = a.parts[1]
	if n == 3 {
		a.Pin = a.parts[2]
	}
	return nil
}
