// Package lifecycle hands what the kernel writes about processes and about its own
// code, as records of performance events (package pmc), on to package symbol: so that
// processes are named that ended before anybody asked, and BPF programs that came
// after the kernel's symbols were read.
//
//	var rec pmc.Record
//	for sampler.ReadInto(ctx, &rec) == nil {
//		if ev, ok := lifecycle.Event(&rec); ok {
//			processes.Handle(&ev)
//		}
//		if ks, ok := lifecycle.KernelSymbol(&rec); ok {
//			kernel = kernel.With(ks)
//		}
//	}
//
// It keeps nothing and allocates nothing; the sampler's SamplingSpec has Task, Comm
// and Mmap, or Ksymbols.
package lifecycle
