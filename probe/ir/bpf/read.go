package bpf

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/eval"
)

// source is what handles read from: a loaded program, perhaps with a recorder, or a
// recording.
type source struct {
	live   *Loaded
	rec    *recording.Recorder
	replay *recording.Recording
}

// openTable opens a table by the name of the kernel's map.
func openTable[K comparable, V any](h Reader, name string,
	live func(*ebpf.Map) (mapx.Table[K, V], error),
) (mapx.Table[K, V], error) {
	src, err := sourceOf(h)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	if src.replay != nil {
		return recording.ReplayTable[K, V](src.replay, name)
	}
	em := src.live.coll.Maps[name]
	if em == nil {
		return nil, fmt.Errorf("map %s is not one of the loaded program's", name)
	}
	in, err := live(em)
	if err != nil {
		return nil, err
	}
	t := &liveTable[K, V]{in, src.live, name}
	if src.rec == nil {
		return t, nil
	}
	return recording.RecordTable(src.rec, name, t), nil
}

// openPlain and openPerCPU are openTable for maps with one value, and with one per CPU.
func openPlain[K comparable, V any](h Reader, name string) (mapx.Table[K, V], error) {
	return openTable(h, name, func(em *ebpf.Map) (mapx.Table[K, V], error) {
		return mapx.New[K, V](em)
	})
}

func openPerCPU[K comparable, V any](h Reader, name string) (mapx.Table[K, []V], error) {
	return openTable(h, name, func(em *ebpf.Map) (mapx.Table[K, []V], error) {
		if em.Type() == ebpf.ArrayOfMaps {
			return openFlip[K, V](h.source().live, name)
		}
		return mapx.NewPerCPU[K, V](em)
	})
}

// table adapts a table in the kernel's form to the caller's. It drops entries
// for which conv returns false.
type table[K1, V1, K2, V2 any] struct {
	in   mapx.Table[K1, V1]
	conv func([]mapx.Entry[K1, V1]) []mapx.Entry[K2, V2]
}

// Snapshot returns the current entries.
func (t *table[K1, V1, K2, V2]) Snapshot() (mapx.Snapshot[K2, V2], error) {
	s, err := t.in.Snapshot()
	return mapx.Snapshot[K2, V2]{Entries: t.conv(s.Entries)}, err
}

// ReadAndClear returns the entries and removes them.
func (t *table[K1, V1, K2, V2]) ReadAndClear() (mapx.Snapshot[K2, V2], error) {
	s, err := t.in.ReadAndClear()
	return mapx.Snapshot[K2, V2]{Entries: t.conv(s.Entries)}, err
}

// each adapts entries one by one.
func each[K1, V1, K2, V2 any](f func(mapx.Entry[K1, V1]) (mapx.Entry[K2, V2],
	bool),
) func([]mapx.Entry[K1, V1]) []mapx.Entry[K2, V2] {
	return func(in []mapx.Entry[K1, V1]) []mapx.Entry[K2, V2] {
		out := make([]mapx.Entry[K2, V2], 0, len(in))
		for _, e := range in {
			if x, ok := f(e); ok {
				out = append(out, x)
			}
		}
		return out
	}
}

// HashTable opens a map as a table of keys and values. A map without keys has one entry.
func HashTable[K comparable, V any](s Reader, m *ir.Map) (mapx.Table[K, V], error) {
	if !m.Keyless() {
		return openPlain[K, V](s, m.Name)
	}
	in, err := openPlain[uint32, V](s, m.Name)
	if err != nil {
		return nil, err
	}
	return &table[uint32, V, K, V]{in, each(func(e mapx.Entry[uint32, V]) (mapx.Entry[K, V], bool) {
		return mapx.Entry[K, V]{Value: e.Value}, true
	})}, nil
}

// perCPU opens an aggregating map; reduce makes one value of those of all CPUs. Entries for
// which it returns false are left out: nothing was counted there yet.
func perCPU[K comparable, V, R any](s Reader, m *ir.Map,
	reduce func([]V) (R, bool),
) (mapx.Table[K, R], error) {
	return perCPUWhole[K](s, m, reduce, always[V])
}

// always is the whole of perCPUWhole for values that are one word.
func always[V any](V) bool { return true }

// A value in the middle of an update is read again: first a number of times at once, and
// then, because the program may have been preempted or its virtual CPU may be waiting for a
// real one, with growing pauses until the time is up.
const (
	rereads     = 100
	settleFirst = 50 * time.Microsecond
	settleMost  = 10 * time.Millisecond
	settleTime  = 5 * time.Second
)

// ErrTorn is the error for an aggregation of several fields that was in the middle of an
// update for seconds, so that no whole value of it could be read. It means that a CPU stands
// still.
var ErrTorn = errors.New("value is being updated all the time")

// pacer spaces the readings of a value in the middle of an update.
type pacer struct {
	n     int
	pause time.Duration
	end   time.Time
}

// next waits until the value should be read again. It returns false when it is time to give
// up.
func (p *pacer) next() bool {
	if p.n++; p.n <= rereads {
		return true
	}
	if p.end.IsZero() {
		p.end, p.pause = time.Now().Add(settleTime), settleFirst
	}
	if time.Now().After(p.end) {
		return false
	}
	time.Sleep(p.pause)
	p.pause = min(2*p.pause, settleMost)
	return true
}

// wholeTable reads values again while they are in the middle of an update.
type wholeTable[K comparable, V any] struct {
	*mapx.PerCPU[K, V]
	whole func(V) bool
}

// Snapshot returns the current entries, each whole.
func (t *wholeTable[K, V]) Snapshot() (mapx.Snapshot[K, []V], error) {
	s, err := t.PerCPU.Snapshot()
	for i, e := range s.Entries {
		v, serr := t.settled(e.Key, e.Value)
		s.Entries[i].Value, err = v, errors.Join(err, serr)
	}
	return s, err
}

func (t *wholeTable[K, V]) settled(key K, cpus []V) ([]V, error) {
	torn := func(v V) bool { return !t.whole(v) }
	var p pacer
	for slices.ContainsFunc(cpus, torn) {
		if !p.next() {
			return cpus, fmt.Errorf("key %v: %w", key, ErrTorn)
		}
		again, ok, err := t.Lookup(key)
		if err != nil || !ok { // deleted meanwhile: keep what was read
			return cpus, err
		}
		cpus = again
	}
	return cpus, nil
}

// perCPUWhole is perCPU for values of several fields: whole reports whether a value is not in
// the middle of an update.
func perCPUWhole[K comparable, V, R any](s Reader, m *ir.Map, reduce func([]V) (R, bool),
	whole func(V) bool,
) (mapx.Table[K, R], error) {
	if check.ClassesOf(m) != nil {
		return stackTable[K](s, m, reduce)
	}
	return oneMap[K](s, m, reduce, whole)
}

// perCPUBytes is perCPUWhole for keys as bytes. Programs that have no others do not contain what reads the
// classes of stacks by Go types: that is compiled for each pair of types.
func perCPUBytes[V, R any](s Reader, m *ir.Map, reduce func([]V) (R, bool),
	whole func(V) bool,
) (mapx.Table[string, R], error) {
	if check.ClassesOf(m) != nil {
		return opaqueStackTable[string](s, m, reduce)
	}
	return oneMap[string](s, m, reduce, whole)
}

// oneMap is perCPUWhole for what is in one map of the kernel's.
func oneMap[K comparable, V, R any](s Reader, m *ir.Map, reduce func([]V) (R, bool),
	whole func(V) bool,
) (mapx.Table[K, R], error) {
	if m.Keyless() {
		in, err := openWhole[uint32](s, m.Name, whole)
		if err != nil {
			return nil, err
		}
		return &table[uint32, []V, K, R]{
			in,
			each(func(e mapx.Entry[uint32, []V]) (mapx.Entry[K, R], bool) {
				r, ok := reduce(e.Value)
				return mapx.Entry[K, R]{Value: r}, ok
			}),
		}, nil
	}
	in, err := openWhole[K](s, m.Name, whole)
	if err != nil {
		return nil, err
	}
	return &table[K, []V, K, R]{in, each(func(e mapx.Entry[K, []V]) (mapx.Entry[K, R], bool) {
		r, ok := reduce(e.Value)
		return mapx.Entry[K, R]{Key: e.Key, Value: r}, ok
	})}, nil
}

func openWhole[K comparable, V any](s Reader, name string, whole func(V) bool) (mapx.Table[K, []V],
	error,
) {
	return openTable(s, name, func(em *ebpf.Map) (mapx.Table[K, []V], error) {
		if em.Type() == ebpf.ArrayOfMaps {
			f, err := openFlip[K, V](s.source().live, name)
			return &wholeFlip[K, V]{f, whole}, err
		}
		t, err := mapx.NewPerCPU[K, V](em)
		if err != nil {
			return nil, err
		}
		return &wholeTable[K, V]{t, whole}, nil
	})
}

// CountTable opens the counts of a map by key (AggCount).
func CountTable[K comparable](s Reader, m *ir.Map) (mapx.Table[K, uint64], error) {
	return perCPU[K](s, m, counted)
}

func counted(cpus []uint64) (sum uint64, some bool) {
	for _, v := range cpus {
		sum += v
	}
	return sum, sum > 0
}

// extremeValue is the value of AggMin and AggMax on one CPU.
type extremeValue struct{ Done, Best uint64 }

// NumberTable opens the sums, minima or maxima of a map by key (AggSum, AggMin, AggMax).
func NumberTable[K comparable](s Reader, m *ir.Map) (mapx.Table[K, int64], error) {
	if m.Agg == ir.AggSum {
		return perCPU[K](s, m, summed)
	}
	return perCPU[K](s, m, extreme(m))
}

func summed(cpus []uint64) (sum int64, some bool) {
	for _, v := range cpus {
		sum += int64(v)
	}
	return sum, true
}

// extreme returns what makes the extreme of a map of those of all CPUs.
func extreme(m *ir.Map) func(cpus []extremeValue) (int64, bool) {
	smallest := m.Agg == ir.AggMin
	return func(cpus []extremeValue) (int64, bool) {
		best, some := uint64(0), false
		for _, v := range cpus {
			best, some = max(best, v.Best), some || v.Done > 0
		}
		return int64(eval.Measure(smallest, m.Signed, best)), some
	}
}

// Stat is what AggAvg and AggStats keep for a key.
type Stat struct {
	// Count is the number of values observed, Sum their sum, which wraps around.
	Count uint64
	Sum   int64
	// Min and Max are 0 for AggAvg, which does not keep them.
	Min, Max int64
}

// Mean returns the average, or 0 if nothing was observed.
func (s Stat) Mean() float64 {
	if s.Count == 0 {
		return 0
	}
	return float64(s.Sum) / float64(s.Count)
}

// Merge returns the summary of the values of both. Of two of AggAvg it has no Min and Max either.
func (s Stat) Merge(o Stat) Stat {
	switch {
	case s.Count == 0:
		return o
	case o.Count == 0:
		return s
	}
	return Stat{
		Count: s.Count + o.Count, Sum: s.Sum + o.Sum, Min: min(s.Min, o.Min), Max: max(s.Max, o.Max),
	}
}

// avgValue and statsValue are the values of AggAvg and AggStats on one CPU.
type (
	avgValue   struct{ Done, Sum, Begun uint64 }
	statsValue struct{ Done, Sum, Min, Max, Begun uint64 }
)

// StatTable opens the summaries of a map by key (AggAvg, AggStats). A summary that was copied
// in the middle of an update is read again, for seconds at most: see ErrTorn.
func StatTable[K comparable](s Reader, m *ir.Map) (mapx.Table[K, Stat], error) {
	if m.Agg == ir.AggAvg {
		return perCPUWhole[K](s, m, averaged, avgValue.whole)
	}
	return perCPUWhole[K](s, m, statistics(m), statsValue.whole)
}

// whole reports whether the value was not in the middle of an update.
func (v avgValue) whole() bool { return v.Done == v.Begun }

func (v statsValue) whole() bool { return v.Done == v.Begun }

func averaged(cpus []avgValue) (st Stat, some bool) {
	for _, v := range cpus {
		st.Count += v.Done
		st.Sum += int64(v.Sum)
	}
	return st, st.Count > 0
}

// statistics returns what makes the summary of a map of those of all CPUs.
func statistics(m *ir.Map) func(cpus []statsValue) (Stat, bool) {
	return func(cpus []statsValue) (st Stat, some bool) {
		var least, most uint64
		for _, v := range cpus {
			st.Count += v.Done
			st.Sum += int64(v.Sum)
			least, most = max(least, v.Min), max(most, v.Max)
		}
		st.Min, st.Max = int64(eval.Measure(true, m.Signed, least)),
			int64(eval.Measure(false, m.Signed, most))
		return st, st.Count > 0
	}
}

// MergeBuckets returns the histogram of the values of both, which are of one map. It changes
// neither.
func MergeBuckets(a, b []hist.Bucket) []hist.Bucket {
	out := make([]hist.Bucket, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := cmp.Compare(a[0].Lo, b[0].Lo); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			sum := a[0]
			sum.Count += b[0].Count
			out, a, b = append(out, sum), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// HistTable opens the histograms of a map by key (AggHist, AggLinear): their buckets that are
// not empty, ascending.
func HistTable[K comparable](s Reader, m *ir.Map) (mapx.Table[K, []hist.Bucket], error) {
	return groupedTable[K](s, m, func(bucket uint32, cpus []uint64) (hist.Bucket, bool) {
		b := hist.Bucket{}
		for _, v := range cpus {
			b.Count += v
		}
		b.Lo, b.Hi = bucketRange(m, int(bucket))
		return b, b.Count > 0
	}, func(x, y hist.Bucket) int { return cmp.Compare(x.Lo, y.Lo) })
}

// Distribution returns the histogram that a map (AggHist, AggLinear) has for a key, as HistTable
// reads it.
func Distribution(m *ir.Map, buckets []hist.Bucket) (hist.Distribution, error) {
	if m.Agg == ir.AggLinear {
		h, err := hist.NewLinear(m.Min, m.Max, m.Step)
		if err == nil {
			err = h.AddBuckets(buckets)
		}
		return h, err
	}
	h, err := hist.NewLog2(m.Bits)
	if err == nil {
		err = h.AddBuckets(buckets)
	}
	return h, err
}

// bucketRange returns the lowest value of a bucket of a map's histogram, and the first above it;
// math.MinInt64 and math.MaxInt64 if that end is open.
func bucketRange(m *ir.Map, i int) (lo, hi int64) {
	if m.Agg == ir.AggHist {
		return hist.Log2Bounds(i, m.Bits)
	}
	switch i {
	case 0:
		return math.MinInt64, m.Min
	case eval.LinearBuckets(m.Min, m.Max, m.Step) - 1:
		return m.Max, math.MaxInt64
	}
	lo = m.Min + int64(i-1)*m.Step
	return lo, lo + m.Step
}

// Stream is a ring, a perf buffer, a replay, or one of these while it is recorded.
type Stream interface {
	mapx.StatsSource
	io.Closer
}

// recorded is a stream that is recorded while it is read.
type recorded struct {
	mapx.StatsSource
	io.Closer
}

// OpenStream opens the buffer behind a map, with its counter of losses. For a perf buffer,
// order is Order of mapx.PerfBufferOptions.
func OpenStream(h Reader, m *ir.Map, order time.Duration) (Stream, error) {
	src, err := sourceOf(h)
	if err != nil {
		return nil, err
	}
	if src.replay != nil {
		return src.replay.Stream(m.Name, nil)
	}
	if err := src.live.reserve(m.Name); err != nil {
		return nil, err
	}
	opened, err := src.live.openBuffer(m, order)
	if err == nil {
		if err = src.live.hold(m.Name, opened); err != nil {
			opened.Close()
		}
	}
	if err != nil {
		src.live.release(m.Name)
		return nil, src.live.failed("open "+m.Name, err)
	}
	in := &liveStream{opened, sync.OnceFunc(func() { src.live.release(m.Name) })}
	if src.rec == nil {
		return in, nil
	}
	return recorded{src.rec.Stream(m.Name, in), in}, nil
}

func (l *Loaded) openBuffer(m *ir.Map, order time.Duration) (Stream, error) {
	em := l.EBPFMap(m)
	if em == nil {
		return nil, fmt.Errorf("map %s is not one of the loaded program's", m.Name)
	}
	lost, slot := l.coll.Maps[check.StatsMap], uint32(l.lay.Lost(m))
	if m.Kind == ir.MapPerf {
		o := &mapx.PerfBufferOptions{PerCPU: m.Entries, Lost: lost, LostSlot: slot, Order: order}
		if o.PerCPU == 0 {
			o.PerCPU = ir.DefaultBuffer
		}
		return mapx.OpenPerfBuffer(em, o)
	}
	return mapx.OpenRing(em, &mapx.RingOptions{Lost: lost, LostSlot: slot})
}

// LookupStorage returns the value that a map of a storage kind holds for a thread or a
// cgroup, given by a file descriptor (a pidfd, or a directory of cgroup2); ok reports whether
// it has one. If V is string, v is the value's bytes: see Value.
func LookupStorage[V any](h Reader, m *ir.Map, fd int) (v V, ok bool, err error) {
	src, err := sourceOf(h)
	if err != nil {
		return v, false, fmt.Errorf("storage %s: %w", m.Name, err)
	}
	em := h.EBPFMap(m)
	if em == nil {
		return v, false, fmt.Errorf("storage %s is not one of the loaded program's", m.Name)
	}
	if s, opaque := any(&v).(*string); opaque {
		var b []byte
		if b, err = em.LookupBytes(int32(fd)); err == nil && b == nil {
			return v, false, nil
		}
		*s = string(b)
	} else {
		err = em.Lookup(int32(fd), &v)
	}
	switch {
	case err == nil:
		return v, true, nil
	case kernel.NoEntry(err):
		return v, false, nil
	default:
		return v, false, src.live.failed("storage "+m.Name, err)
	}
}
