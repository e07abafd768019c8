package system

import (
	"cmp"
	"errors"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/prototype"
)

// name is the name of a tracepoint or a function, and its group: a tracepoint's category, the
// module, or the file. USDT probes have a provider between these.
type name struct{ group, provider, name string }

// tracepoints returns all tracepoints, nil if they cannot be listed.
func (s *System) tracepoints() []name {
	const all = "tracepoint"
	list, ok := s.lists[all]
	if !ok {
		list = names(probe.Tracepoint{Group: "*", Name: "*"}, s.env, math.MaxInt)
		s.lists[all] = list
	}
	return list
}

// rawTracepoints returns all raw tracepoints in a module's types.
func (s *System) rawTracepoints(module string) []name {
	key := "rawtracepoint:" + module
	list, ok := s.lists[key]
	if !ok {
		list = names(probe.RawTracepoint{Module: module, Name: "*"}, s.env, math.MaxInt)
		s.lists[key] = list
	}
	return list
}

// prototyped returns the kernel's functions in its types, nil if these cannot be read.
func (s *System) prototyped() []name {
	const all = "function"
	list, ok := s.lists[all]
	if !ok {
		functions, _ := prototype.Names[*btf.Func](s.env, "", "")
		for _, f := range functions {
			list = append(list, name{name: f})
		}
		s.lists[all] = list
	}
	return list
}

// listed reports whether an event may exist: whether it is listed, or nothing could be.
func (s *System) listed(provider string, n name) bool {
	var list []name
	if provider == "tracepoint" {
		if s.there(n) {
			return true
		}
		list = s.tracepoints()
	} else {
		list = s.rawTracepoints(n.group)
	}
	_, found := slices.BinarySearchFunc(list, n, func(a, b name) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.name, b.name))
	})
	return found || len(list) == 0 && !s.unloaded(n.group)
}

// unloaded reports whether the machine, which lists its modules, has none of that name.
func (s *System) unloaded(module string) bool {
	if module == "" || module == "vmlinux" {
		return false
	}
	const loaded = "sys/module"
	_, err := fs.Stat(s.env.Root(), loaded+"/"+module)
	_, listed := fs.Stat(s.env.Root(), loaded)
	return errors.Is(err, fs.ErrNotExist) && listed == nil
}

// mostAlone is how many tracepoints are looked for one by one before all are listed: that takes
// longer than all else of a script with a few.
const mostAlone = 8

// there reports whether a tracepoint is there, as far as that is known without listing all.
func (s *System) there(n name) bool {
	if s.lists["tracepoint"] != nil || s.alone == mostAlone {
		return false
	}
	s.alone++
	_, err := s.env.Tracepoint(n.group, n.name)
	if err != nil {
		s.alone = mostAlone // the error that follows lists all
	}
	return err == nil
}

// names lists up to most matches of a target with wildcards.
func names(t probe.Target, e *probe.Env, most int) []name {
	var list []name
	matches, _ := probe.List(t.String(), &probe.ListOptions{Env: e})
	for m := range matches {
		switch t := m.Target.(type) {
		case probe.Tracepoint:
			list = append(list, name{group: t.Group, name: t.Name})
		case probe.RawTracepoint:
			list = append(list, name{group: t.Module, name: t.Name})
		case probe.Fentry:
			list = append(list, name{group: t.Module, name: t.Symbol})
		case probe.Fexit:
			list = append(list, name{group: t.Module, name: t.Symbol})
		case probe.Kprobe:
			list = append(list, name{group: t.Module, name: t.Symbol})
		case probe.Kretprobe:
			list = append(list, name{group: t.Module, name: t.Symbol})
		case probe.Uprobe:
			list = append(list, name{group: t.Path, name: t.Symbol})
		case probe.Uretprobe:
			list = append(list, name{group: t.Path, name: t.Symbol})
		case probe.USDT:
			list = append(list, name{t.Path, t.Provider, t.Name})
		}
		if len(list) >= most {
			break
		}
	}
	return list
}
