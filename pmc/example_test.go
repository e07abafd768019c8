package pmc_test

import (
	"fmt"
	"testing/fstest"
	"time"

	"github.com/borescope/borescope/pmc"
)

// Encoding an event needs no Linux and no privileges if the files are those of a recorded
// machine.
func ExampleParseEvent() {
	machine := fstest.MapFS{
		"sys/bus/event_source/devices/cpu/type":         {Data: []byte("4\n")},
		"sys/bus/event_source/devices/cpu/format/event": {Data: []byte("config:0-7,32-35\n")},
		"sys/bus/event_source/devices/cpu/format/umask": {Data: []byte("config:8-15\n")},
	}
	e, err := pmc.ParseEvent("cpu/event=0x187,umask=0x1/u", &pmc.Options{Root: machine})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: type %d, config %#x\n", e, e.Type, e.Attr().Config)
	_, err = pmc.ParseEvent("cpu/evnt=1/", &pmc.Options{Root: machine})
	fmt.Println(err)
	// Output:
	// cpu/event=0x187,umask=0x1/u: type 4, config 0x100000187
	// event "cpu/evnt=1/": column 1: PMU cpu: no term "evnt"; it has config, event, umask; did you mean "event"?
}

// Counts are plain data. A count of an event that had a counter for a part of the time only
// is scaled, and has a lower confidence.
func ExampleCounts_Totals() {
	counts := pmc.Counts{
		Time:   time.Second,
		Events: []pmc.Event{pmc.Cycles(), pmc.Instructions()},
		Rows: []pmc.Row{
			{Event: 0, CPU: -1, Raw: 2_000_000, Enabled: time.Second, Running: time.Second},
			{Event: 1, CPU: -1, Raw: 1_500_000, Enabled: time.Second, Running: time.Second / 2},
		},
	}
	for _, v := range counts.Totals() {
		fmt.Printf("%-12s %d (%s, %.0f %% of the time)\n", v.Event, v.Count, v.Confidence, 100*v.Coverage)
	}
	for _, m := range counts.Metrics() {
		fmt.Printf("%s %.2f = %s\n", m.Name, m.Value, m.Formula)
	}
	// Output:
	// cycles       2000000 (exact, 100 % of the time)
	// instructions 3000000 (high, 50 % of the time)
	// IPC 1.50 = instructions / cycles
	// CPI 0.67 = cycles / instructions
}
