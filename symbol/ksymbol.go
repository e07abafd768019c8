package symbol

import (
	"cmp"
	"maps"
	"slices"
)

// KernelSymbol is a piece of kernel code that was loaded or unloaded: a BPF program or
// trampoline, or an ftrace trampoline. Its fields are those of perf's PERF_RECORD_KSYMBOL
// (include/uapi/linux/perf_event.h; since Linux 5.1, with attr.ksymbol set).
type KernelSymbol struct {
	Addr   uint64 // of its first byte
	Len    uint32 // bytes
	Name   string
	BPF    bool // KSYM_TYPE_BPF; otherwise KSYM_TYPE_OOL: trampolines
	Unload bool // PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER
}

// With returns a Kernel with the code that was loaded since k was read, and without the
// code that was unloaded. It shares k's table and does not read /proc/kallsyms again. The
// later of two events for an address counts. k stays as it is, so that concurrent calls of
// its Resolve are not disturbed.
func (k *Kernel) With(events ...KernelSymbol) *Kernel {
	n := newKernel(&k.opts)
	n.load, n.source = k.load, k.source
	n.asked.Store(true) // a caller that adds events will look up more addresses
	n.size.Store(k.size.Load())
	all := maps.Clone(k.live)
	if all == nil {
		all = map[uint64]KernelSymbol{}
	}
	for _, e := range events {
		all[e.Addr] = e
	}
	n.live = all
	n.sorted = make([]KernelSymbol, 0, len(all))
	for _, e := range all {
		n.sorted = append(n.sorted, e)
	}
	slices.SortFunc(n.sorted, func(a, b KernelSymbol) int { return cmp.Compare(a.Addr, b.Addr) })
	return n
}

// liveAt returns the last event whose code contains an address, nil if there is none.
func (k *Kernel) liveAt(pc uint64) *KernelSymbol {
	i, found := slices.BinarySearchFunc(k.sorted, pc, func(e KernelSymbol, pc uint64) int {
		return cmp.Compare(e.Addr, pc)
	})
	if !found {
		i--
	}
	if i < 0 || pc-k.sorted[i].Addr >= uint64(max(k.sorted[i].Len, 1)) {
		return nil
	}
	return &k.sorted[i]
}

// nameLive names an address by the events. It returns false if they do not concern it.
func (k *Kernel) nameLive(fr *Frame, pc uint64) bool {
	e := k.liveAt(pc)
	if e == nil {
		return false
	}
	fr.Module = ""
	if e.Unload {
		fr.Reason = ReasonNoMapping
		return true
	}
	fr.Name, fr.Offset, fr.Size, fr.Confidence = e.Name, pc-e.Addr, uint64(e.Len), ConfidenceExact
	fr.Module, fr.Kind = "[kernel]", KindKernel
	if e.BPF {
		fr.Module, fr.Kind = "[bpf]", KindBPF
	}
	return true
}
