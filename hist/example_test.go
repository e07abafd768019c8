package hist_test

import (
	"fmt"
	"os"
	"time"

	"github.com/borescope/borescope/hist"
)

// Print draws latencies in microseconds as bpftrace does.
func Example() {
	h, err := hist.NewLog2(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, usecs := range []int64{3, 5, 6, 7, 9, 12, 40} {
		h.Add(usecs)
	}
	if err := hist.Print(os.Stdout, "@usecs", h, &hist.TextOptions{Width: 20}); err != nil {
		fmt.Println(err)
		return
	}
	p50, err := h.Quantile(0.5)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("p50 between %d and %d\n", p50.Min, p50.Max)
	// Output:
	// @usecs:
	// [2, 4)                 1 |@@@@@@              |
	// [4, 8)                 3 |@@@@@@@@@@@@@@@@@@@@|
	// [8, 16)                2 |@@@@@@@@@@@@@       |
	// [16, 32)               0 |                    |
	// [32, 64)               1 |@@@@@@              |
	//
	// p50 between 4 and 7
}

// A page for Prometheus, of a histogram in microseconds. A histogram that tracks its values has
// an exact sum.
func ExamplePrometheusPage() {
	var h hist.Log2
	h.Track()
	for _, usecs := range []int64{3, 5, 900} {
		h.Add(usecs)
	}
	var page hist.PrometheusPage
	disk := []hist.PrometheusLabel{{Name: "disk", Value: "sda"}}
	err := page.Histogram("read_seconds", "Latency of reads.", disk, hist.ToPrometheus(&h, 1e-6))
	if err == nil {
		err = page.Counter("reads_lost_total", "Reads that were not seen.", disk, 0)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	page.WriteTo(os.Stdout)
	// Output:
	// # HELP read_seconds Latency of reads.
	// # TYPE read_seconds histogram
	// read_seconds_bucket{disk="sda",le="1e-06"} 0
	// read_seconds_bucket{disk="sda",le="3e-06"} 1
	// read_seconds_bucket{disk="sda",le="7e-06"} 2
	// read_seconds_bucket{disk="sda",le="1.5e-05"} 2
	// read_seconds_bucket{disk="sda",le="3.1e-05"} 2
	// read_seconds_bucket{disk="sda",le="6.3e-05"} 2
	// read_seconds_bucket{disk="sda",le="0.000127"} 2
	// read_seconds_bucket{disk="sda",le="0.000255"} 2
	// read_seconds_bucket{disk="sda",le="0.000511"} 2
	// read_seconds_bucket{disk="sda",le="0.001023"} 3
	// read_seconds_bucket{disk="sda",le="+Inf"} 3
	// read_seconds_sum{disk="sda"} 0.000908
	// read_seconds_count{disk="sda"} 3
	// # HELP reads_lost_total Reads that were not seen.
	// # TYPE reads_lost_total counter
	// reads_lost_total{disk="sda"} 0
}

// A heat map shows latencies over time. Here slow ones begin in the fourth second.
func ExampleHeat() {
	h, err := hist.NewHeat(time.Second, &hist.Log2{})
	if err != nil {
		fmt.Println(err)
		return
	}
	start := time.Date(2026, 1, 2, 15, 4, 0, 0, time.UTC)
	for i := range 600 {
		usecs := int64(100 + i%50)
		if i > 300 && i%10 == 0 {
			usecs *= 20
		}
		h.Add(start.Add(time.Duration(i)*10*time.Millisecond), usecs)
	}
	fmt.Print(h.Grid().Text(60, &hist.HeatOptions{Unit: "us", Zone: time.UTC, NoColour: true}))
	// Output:
	//     2.048 ms |   ░░░|
	//     1.024 ms |   ░░░|
	//       512 µs |      |
	//       256 µs |      |
	//       128 µs |███▓▓▓|
	//        64 µs |██████|
	//               15:04:00 … 15:04:05
}
