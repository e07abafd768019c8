// Package perfdata reads the files that "perf record" writes, as samples whose stacks
// package stack walks, and writes such files for perf report, perf script and Hotspot.
//
//	f, err := perfdata.Open("perf.data")
//	samples, errOf := f.Samples()
//	for s := range samples {
//		w := stack.CFIWalker{Modules: s.Modules}
//		n, end := w.Walk(frames[:], s.Regs, s.Stack)
//	}
//
// The package records nothing itself: package pmc samples events, and package stack/collect
// stacks. AUX data (Intel PT) and headers beyond the events are not read. It
// needs no Linux and no privileges. The caller must close a File that Open returned.
//
// Source: tools/perf/Documentation/perf.data-file-format.txt of the kernel.
package perfdata
