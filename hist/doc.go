// Package hist contains distributions as tracing tools show them: Log2 (powers of two, each
// divided into 2^k), Linear, Series over time and Heat maps, with the bucket rules of bpftrace
// and BCC, so that counts from a BPF map, from a file and from a Go program fit together.
//
//	h, _ := hist.NewLog2(0)
//	for _, v := range latencies {
//		h.Add(v)
//	}
//	hist.Print(os.Stdout, "@usecs", h, nil) // as bpftrace prints it
//	p99, _ := h.Quantile(0.99)
//	fmt.Printf("p99 %.0f (%d to %d)\n", p99.Value, p99.Min, p99.Max)
//
// It draws them as bpftrace, BCC, SVG, terminal blocks, JSON and CSV, and converts them to
// Prometheus and OpenTelemetry forms. Counts have 64 bits everywhere. The package needs no
// kernel, no privileges and only the standard library, starts no goroutine and holds no
// resource.
//
// Adding a value takes 1 to 2 ns and no memory once the buckets are allocated.
package hist
