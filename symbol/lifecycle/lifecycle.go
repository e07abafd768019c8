package lifecycle

import (
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/symbol"
)

// Event returns the event that a record of a pmc.Sampler describes, for
// symbol.Processes.Handle. With these events, processes are named even if they ended early.
// ok is false for records of threads and of anything else. The sampler must ask for Task,
// Comm and Mmap. Records of several CPUs must be handled in the order of their times
// (Record.ID.Time, with Time). The event holds none of the record's memory.
func Event(rec *pmc.Record) (ev symbol.Event, ok bool) {
	switch {
	case rec.IsFork():
		t := &rec.Task
		return symbol.Event{Kind: symbol.EventFork, PID: int(t.PID), Parent: int(t.PPID)}, t.PID != t.PPID
	case rec.IsExit():
		t := &rec.Task
		return symbol.Event{Kind: symbol.EventExit, PID: int(t.PID)}, t.PID == t.TID
	case rec.IsComm():
		c := &rec.Comm
		return symbol.Event{Kind: symbol.EventExec, PID: int(c.PID), Comm: c.Name}, c.Exec
	case rec.IsMmap():
		m := &rec.Mmap
		ev := symbol.Event{
			Kind: symbol.EventMmap, PID: int(m.PID), Addr: m.Addr, Len: m.Len, Offset: m.PageOff,
			Path: m.Path,
		}
		if !rec.ByBuildID() { // without an inode it is 0
			ev.Dev, ev.Inode = uint64(m.Major)<<32|uint64(m.Minor), m.Inode
		}
		return ev, rec.HoldsCode()
	}
	return symbol.Event{}, false
}

// KernelSymbol returns the kernel code that a record of a pmc.Sampler reports as loaded or
// unloaded, for symbol.Kernel.With. BPF programs are then named without reading
// /proc/kallsyms again. The sampler must ask for Ksymbols (Linux 5.1). ok is false for
// other records.
func KernelSymbol(rec *pmc.Record) (s symbol.KernelSymbol, ok bool) {
	if !rec.IsKsymbol() {
		return symbol.KernelSymbol{}, false
	}
	k := &rec.Ksymbol
	const bpf = 1 // PERF_RECORD_KSYMBOL_TYPE_BPF, include/uapi/linux/perf_event.h
	return symbol.KernelSymbol{
		Addr: k.Addr, Len: k.Len, Name: k.Name, BPF: k.Kind == bpf,
		Unload: k.Unregister,
	}, true
}
