// Package lifecycle turns the kernel's records about processes and about its own code,
// which are performance events (package pmc), into the events of package symbol. Processes
// that ended early are named by them, and so are BPF programs that were loaded after the
// kernel's symbols were read.
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
// These functions keep no state and allocate nothing. The sampler's SamplingSpec must have
// Task, Comm and Mmap set, or Ksymbols. Follow has a sampler of its own: it keeps a
// symbol.Processes up to date with one call.
package lifecycle
