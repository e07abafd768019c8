package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/spec"
)

// reason is a path as -json prints it.
type reason struct {
	Count  uint64   `json:"count"`
	PID    uint64   `json:"pid"`
	Kernel []string `json:"kernel,omitempty"`
	User   []string `json:"user,omitempty"`
}

// answer opens a counter. It returns a function that reads the counter at the end and calls
// show with its entries, the most frequent first, and their sum.
func answer[K comparable](r *tool.Run, c *action.Counter[K],
	show func(entries []mapx.Entry[K, uint64], sum uint64) error,
) func() error {
	read, err := tool.Counts(r, c)
	return func() error {
		if err != nil {
			return err
		}
		entries, err := read()
		if err != nil {
			return err
		}
		var sum uint64
		for _, e := range entries {
			sum += e.Value
		}
		return show(entries, sum)
	}
}

// percent returns part in percent of sum, which must not be 0.
func percent(part, sum uint64) float64 { return 100 * float64(part) / float64(sum) }

func showWho(r *tool.Run, who *action.Counter[process], top int) func() error {
	return answer(r, who, func(entries []mapx.Entry[process, uint64], sum uint64) error {
		r.Printf("WHO: %d events\n", sum)
		tab := r.Table("COUNT %-9d", "PCT %5.1f", "PID %-7d", "COMM %s")
		tab.Header()
		for _, e := range entries[:min(top, len(entries))] {
			tab.Row(e.Value, percent(e.Value, sum), e.Key.PID, e.Key.Comm)
		}
		return nil
	})
}

func showWhy(r *tool.Run, why *action.Counter[path], top int) func() error {
	return answer(r, why, func(entries []mapx.Entry[path, uint64], sum uint64) error {
		r.Printf("\nWHY: stacks, %d in all\n", len(entries))
		for _, e := range entries[:min(top, len(entries))] {
			kernel, user := r.KernelNames(e.Key.Kernel[:]), r.UserNames(int(e.Key.PID), e.Key.User[:])
			r.JSON(reason{e.Value, e.Key.PID, kernel, user})
			r.Printf("%d (%.1f %%) by process %d\n", e.Value, percent(e.Value, sum), e.Key.PID)
			r.Stack(kernel)
			r.Stack(user)
		}
		return nil
	})
}

func showWhat(r *tool.Run, what *action.Counter[value], v spec.Value, top int) func() error {
	return answer(r, what, func(entries []mapx.Entry[value, uint64], sum uint64) error {
		r.Printf("\nWHAT: %s, values: %d in all\n", v.Text, len(entries))
		tab := r.Table("COUNT %-9d", "PCT %5.1f", "VALUE %v")
		tab.Header()
		for _, e := range entries[:min(top, len(entries))] {
			val := v.Number(e.Key.N)
			if v.IsText() {
				val = v.String(e.Key.S[:])
			}
			tab.Row(e.Value, percent(e.Value, sum), val)
		}
		return nil
	})
}

// barWidth is the number of characters in the bar of the second with the most events.
const barWidth = 40

func showWhen(r *tool.Run, json bool, when *action.Counter[uint64]) func() error {
	return answer(r, when, func(entries []mapx.Entry[uint64, uint64], _ uint64) error {
		r.Printf("\nHOW over time: events in each second\n")
		tab := r.Table("TIME %-9s", "COUNT %-9d", "BAR %s").Show("BAR", !json)
		tab.Header()
		if len(entries) == 0 {
			return nil
		}
		most := entries[0].Value
		counts := map[uint64]uint64{}
		for _, e := range entries {
			counts[e.Key] = e.Value
		}
		seconds := slices.Sorted(maps.Keys(counts))
		for sec := seconds[0]; sec <= seconds[len(seconds)-1]; sec++ {
			bar := strings.Repeat("*", int(counts[sec]*barWidth/most))
			tab.Row(r.Time(sec*1e9).Format("15:04:05"), counts[sec], bar)
		}
		return nil
	})
}
