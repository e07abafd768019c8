package ir

// MapKind is how a map stores its entries.
type MapKind uint8

// The kinds of maps.
const (
	MapHash          MapKind = iota // shared, fails on full (counted)
	MapLRU                          // shared, evicts the least recently used
	MapPerCPUHash                   // one value per CPU
	MapPerCPULRU                    // one value per CPU, evicting
	MapArray                        // keys 0 … Entries-1, always present
	MapPerCPUArray                  //
	MapTaskStorage                  // one per thread: the current thread's, freed with it (5.12)
	MapCgroupStorage                // one per cgroup: the current cgroup's, freed with it (6.2)
	MapRing                         // ring buffer: Entries is its size in bytes (5.8)
	MapPerf                         // perf buffer: Entries is bytes per CPU
	numMapKinds
)

// Agg is what an aggregating map computes.
type Agg uint8

// The aggregations.
const (
	AggNone   Agg = iota
	AggCount      // events
	AggSum        // sum of the values
	AggMin        // smallest value
	AggMax        // largest value
	AggAvg        // count and sum
	AggStats      // count, sum, smallest, largest
	AggHist       // log2 buckets, each divided in 2^Bits
	AggLinear     // buckets of Step from Min to Max
	AggSeries     // Slots intervals of Interval nanoseconds, each aggregated by Inner
	AggLast       // the newest value (only as Inner)
	numAggs
)

// Map is a BPF map of a program. If Agg is not AggNone, it decides Value.
type Map struct {
	// Name is unique in the program. The kernel sees its first 15 bytes.
	Name string
	Kind MapKind
	// Key is the type of the keys. KindAuto (the zero Type) makes a map without keys, which
	// holds one entry.
	Key Type
	// Value is the type of the values, or of the events of a buffer.
	Value Type
	// Entries is the number of keys there is room for, or the size of a buffer in bytes. 0 is
	// DefaultEntries, or DefaultBuffer; see also EachProbe.
	Entries int

	Agg Agg
	// Bits is k of AggHist, 0 to 5: each power of two is divided into 2^k buckets.
	Bits int
	// Min, Max and Step are the range of AggLinear.
	Min, Max, Step int64
	// Interval is the length of a slot of AggSeries in nanoseconds, Slots the number of slots
	// kept.
	Interval int64
	Slots    int
	// Inner is what a slot of AggSeries holds: AggCount, AggSum, AggMin, AggMax, AggAvg
	// or AggLast.
	Inner Agg
	// Signed is set where an aggregation's values are signed.
	Signed bool
	// Flip makes ReadAndClear of an aggregation's table exact, and possible for tables
	// without keys: the program writes to one of two maps, which it finds in an array of
	// maps. The reader makes it write to the other and reads the first, which no longer
	// changes (mapx.Flip). Flip takes twice the memory and another lookup by event (16 ns,
	// BenchmarkFlip), and the program cannot read the aggregation. Without it, ReadAndClear
	// may lose values that are added to an entry while it is being deleted.
	Flip bool
	Pos  Pos
}

// Keyless reports whether the map holds one entry without a key.
func (m *Map) Keyless() bool { return m.Key.Kind == KindAuto }

var mapKindNames = [numMapKinds]string{
	"hash", "lru", "percpu_hash", "percpu_lru", "array", "percpu_array",
	"task_storage", "cgroup_storage", "ring", "perf",
}

// String returns the kind's name.
func (k MapKind) String() string {
	if k < numMapKinds {
		return mapKindNames[k]
	}
	return "invalid"
}

var aggNames = [numAggs]string{
	"", "count", "sum", "min", "max", "avg", "stats", "hist", "lhist",
	"tseries", "last",
}

// String returns the aggregation's name.
func (a Agg) String() string {
	if a < numAggs {
		return aggNames[a]
	}
	return "invalid"
}

// The values of aggregating maps, of one CPU. Aggregations of several fields
// count updates before and behind them: a reader that copies from the low end
// finds done == begun only if no update was under way while it copied.
//
//	count, sum        u64
//	min, max          done, best
//	avg               done, sum, begun
//	stats             done, sum, min, max, begun
//	last              time (CLOCK_MONOTONIC), value
//
// best, min and max are kept as unsigned numbers that grow towards the extreme,
// so that zeros, which new entries hold, are below every value: see the code
// generator's extreme (internal/codegen/agg.go).
const (
	AggDone  = 0
	AggFirst = 8
)
