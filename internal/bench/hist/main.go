// Hist measures the recording cost, the memory and the error of package hist next to
// hdrhistogram-go, DDSketch and Prometheus' native histogram, in one run.
//
//	go -C internal/bench run ./hist
//	go -C internal/bench test ./hist     (conversions against the same libraries)
//
// Each records the same 65,536 lognormal values, and the best of several rounds counts.
package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/borescope/borescope/hist"
)

// recorder is one way to record values. quantile is nil if the library has none.
type recorder struct {
	add      func(v int64)
	quantile func(q float64) float64
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench hist:", err)
		os.Exit(1)
	}
}

func log2(k int) func() (recorder, error) {
	return func() (recorder, error) {
		h, err := hist.NewLog2(k)
		return recorder{h.Add, func(q float64) float64 { r, _ := h.Quantile(q); return r.Value }}, err
	}
}

func atomic(k int) func() (recorder, error) {
	return func() (recorder, error) {
		h, err := hist.NewAtomicLog2(k)
		return recorder{h.Add, func(q float64) float64 {
			r, _ := h.Snapshot().Quantile(q)
			return r.Value
		}}, err
	}
}

func hdr(digits int) func() (recorder, error) {
	return func() (recorder, error) {
		h := hdrhistogram.New(1, 1<<40, digits)
		return recorder{
			func(v int64) { _ = h.RecordValue(v) },
			func(q float64) float64 { return float64(h.ValueAtQuantile(100 * q)) },
		}, nil
	}
}

func sketch() (recorder, error) {
	s, err := ddsketch.NewDefaultDDSketch(0.01)
	return recorder{
		func(v int64) { _ = s.Add(float64(v)) },
		func(q float64) float64 { v, _ := s.GetValueAtQuantile(q); return v },
	}, err
}

func native() (recorder, error) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", NativeHistogramBucketFactor: 1.1})
	return recorder{add: func(v int64) { h.Observe(float64(v)) }}, nil
}

func run() error {
	r := rand.New(rand.NewPCG(1, 1))
	values := make([]int64, 1<<16)
	for i := range values {
		values[i] = int64(math.Exp(r.NormFloat64()*1.5 + 10))
	}
	sorted := slices.Sorted(slices.Values(values))
	fmt.Printf("%-28s %8s %10s %10s %10s\n", "", "ns/add", "bytes", "p99 %", "p99.9 %")
	for _, c := range []struct {
		name string
		make func() (recorder, error)
	}{
		{"hist.Log2 k=0", log2(0)},
		{"hist.Log2 k=2", log2(2)},
		{"hist.Log2 k=5", log2(5)},
		{"hist.AtomicLog2 k=5", atomic(5)},
		{"hdrhistogram-go 2 digits", hdr(2)},
		{"hdrhistogram-go 3 digits", hdr(3)},
		{"DDSketch 1 %", sketch},
		{"Prometheus native 1.1", native},
	} {
		cost, size, rec, err := measure(c.make, values)
		if err != nil {
			return err
		}
		fmt.Printf("%-28s %8.2f %10d", c.name, cost, size)
		for _, q := range []float64{0.99, 0.999} {
			if rec.quantile == nil {
				fmt.Printf(" %10s", "-")
				continue
			}
			truth := float64(sorted[int(math.Ceil(q*float64(len(sorted))))-1])
			fmt.Printf(" %+10.2f", 100*(rec.quantile(q)-truth)/truth)
		}
		fmt.Println()
	}
	return nil
}

// measure returns the least nanoseconds per value, and the live memory afterwards.
func measure(make func() (recorder, error), values []int64) (float64, int64, recorder, error) {
	runtime.GC()
	runtime.GC() // frees what finalizers held
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rec, err := make()
	if err != nil {
		return 0, 0, rec, err
	}
	best := time.Duration(math.MaxInt64)
	for range 20 {
		start := time.Now()
		for _, v := range values {
			rec.add(v)
		}
		best = min(best, time.Since(start))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	return float64(best) / float64(len(values)), int64(after.HeapAlloc) - int64(before.HeapAlloc), rec,
		nil
}
