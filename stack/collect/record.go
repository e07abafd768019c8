package collect

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
)

// Names of the streams and tables in a recording.
const (
	recCounts    = "timed_counts"
	recTotals    = "timed_totals"
	recWaits     = "timed_waits" // the totals of waits in windows
	recSegments  = "segments"
	recCounters  = "counters"
	recProcesses = "processes"
)

// Record makes rec keep everything that is read from now on, for Replay. It must be called
// before the first read. The caller must close rec after the last one.
func (c *Collector) Record(rec *recording.Recorder) {
	switch {
	case c.keepStacks && c.filter.windows:
		c.totals = recording.RecordTable(rec, recWaits, c.totals)
	case c.totals != nil:
		c.totals = recording.RecordTable(rec, recTotals, c.totals)
	default:
		c.counts = recording.RecordTable(rec, recCounts, c.counts)
	}
	c.segments = recording.RecordTable(rec, recSegments, c.segments)
	c.counters = recording.RecordTable(rec, recCounters, c.counters)
	c.first = rec.Stream(recProcesses, c.first)
}

// Replay returns a Collector that reads from a recording what a live one read. It works on
// every system.
func Replay(rec *recording.Recording) (*Collector, error) {
	tables, err := rec.Tables()
	if err != nil {
		return nil, fmt.Errorf("collect: %w", err)
	}
	h := handles{keepStacks: slices.Contains(tables, recWaits) || slices.Contains(tables, untimedWaits)}
	switch {
	case slices.Contains(tables, recWaits):
		h.totals, err = recording.ReplayTable[waitKey, summed](rec, recWaits)
	case slices.Contains(tables, recTotals):
		h.totals, err = recording.ReplayTable[waitKey, summed](rec, recTotals)
	case slices.Contains(tables, recCounts):
		h.counts, err = recording.ReplayTable[taskKey, counted](rec, recCounts)
	default:
		h.totals, err = replayUntimed(rec, tables)
	}
	if err != nil {
		return nil, fmt.Errorf("collect: %w", err)
	}
	h.segments, err = recording.ReplayTable[segment, uint64](rec, recSegments)
	if err != nil {
		return nil, fmt.Errorf("collect: %w", err)
	}
	h.counters, err = recording.ReplayTable[uint32, []uint64](rec, recCounters)
	if err != nil {
		return nil, fmt.Errorf("collect: %w", err)
	}
	h.first, err = rec.Stream(recProcesses, nil)
	if err != nil {
		return nil, fmt.Errorf("collect: %w", err)
	}
	return &Collector{handles: h}, nil
}

// ParseProcess returns the ids in a record of Processes: those of the process, and of the
// thread that was seen first.
func ParseProcess(rec *mapx.Record) (pid, tid int, err error) {
	if len(rec.Data) < 8 {
		return 0, 0, fmt.Errorf("collect: process record of %d bytes, want 8", len(rec.Data))
	}
	// The program stores pid<<32|tid as one number.
	id := binary.NativeEndian.Uint64(rec.Data)
	return int(id >> 32), int(uint32(id)), nil
}
