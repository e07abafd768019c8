// Package bpfprom exports BPF maps as Prometheus metrics: what a service's own tracer, or a script,
// counts in the kernel is at the service's /metrics.
//
//	table, err := calls.Table(session) // of probe/action; script.Map and mapx have tables, too
//	if err != nil {
//		return err
//	}
//	c, err := bpfprom.New(table, bpfprom.Metric{Name: "own_calls_total", Labels: []string{"call"}})
//	if err != nil {
//		return err
//	}
//	prometheus.MustRegister(c)
//
// Counts are a counter or a gauge, averages a summary without quantiles, and histograms native
// histograms, classic ones, or both. Each part of a key is a label, whose values are always valid
// UTF-8 without characters that a terminal acts on, and are cut.
//
// # What is exact
//
// A counter has all that its map has counted since New, also what the map has no longer: of entries
// that were deleted or cleared what the last scrape saw stays. [Continue] gives the collector the map
// of a later session, and adds what the earlier one counted up to its end.
//
// A map may have more keys than Prometheus takes series. A metric has at most MaxSeries of them; the
// counts of all other keys are one more series, whose labels are all [Other], and borescope_series_over
// says how many keys these are. A series of a counter stays as long as its collector, as those of
// client_golang do, or until Metric.Expire after its key has left the map (deleted, evicted, or not there
// since a takeover); borescope_series_expired_total says how many have ended. A gauge ends with its key. A
// key that is among the others stays there while it is in the map.
//
// A scrape that cannot read a map exports what was read before, and counts it
// (borescope_read_errors_total). [Losses] exports what a session costs and has lost.
//
// # Cost
//
// A scrape reads each map once, and nothing runs between scrapes. The package starts no goroutine.
package bpfprom
