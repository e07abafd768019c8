package mapx

import (
	"slices"
	"sync"
	"time"
)

// Window is what a table counted in a window of time. It is plain data: Print, PrintJSON, Top and
// Values take its Snapshot, Merge adds windows up, and Delta compares two.
type Window[K, V any] struct {
	Snapshot[K, V]
	// Begin and End are when the window began and ended. An update that a program was making at
	// that moment, and for the milliseconds that the kernel waits for it, may be on either side,
	// but never on both.
	Begin, End time.Time
}

// Duration returns how long the window was.
func (w Window[K, V]) Duration() time.Duration { return w.End.Sub(w.Begin) }

// Windows divides what a table counts into windows of time, and keeps the last ones: "the last
// ten seconds" of a table that counts for months. Memory is bounded by what is kept, and a table
// that was full has room again in the next window. It is safe for concurrent use; it borrows the
// table and starts nothing: somebody has to call Next, such as a time.Ticker's loop.
//
//	w := mapx.NewWindows(table, attached, time.Minute, func(a, b uint64) uint64 { return a + b })
//	for range time.Tick(time.Second) {
//		if _, err := w.Next(); err != nil {
//			return err
//		}
//		mapx.Print(os.Stdout, "@calls", w.Last(10*time.Second).Snapshot, nil)
//	}
//
// Action's tables have a method Windows that makes one, with the right function.
type Windows[K comparable, V any] struct {
	table Table[K, V]
	merge func(a, b V) V
	keep  time.Duration

	reading sync.Mutex // held while the table is read

	mu    sync.Mutex
	began time.Time        // guarded by mu
	half  Snapshot[K, V]   // guarded by mu: what a reading that failed had taken out
	kept  []Window[K, V]   // guarded by mu: oldest first
	now   func() time.Time // for tests
}

// NewWindows begins the first window of a table that has counted since that time; what it counted
// already is in it. merge returns the value for what two windows counted for a key together, and
// must not change its arguments. Last knows windows of the time keep before the current one, and
// always the last one.
//
// Every update is in exactly one window if the table's ReadAndClear loses nothing: a Flip, or the
// table of an action's aggregation with Flip.
func NewWindows[K comparable, V any](t Table[K, V], since time.Time, keep time.Duration,
	merge func(a, b V) V,
) *Windows[K, V] {
	return &Windows[K, V]{table: t, merge: merge, keep: keep, began: since, now: time.Now}
}

// Next ends the current window, begins another, and returns the one that ended. That takes as
// long as ReadAndClear. After an error the current window goes on, and nothing of it is lost.
func (w *Windows[K, V]) Next() (Window[K, V], error) {
	w.reading.Lock()
	defer w.reading.Unlock()
	end := w.now()
	s, err := w.table.ReadAndClear()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.half.Entries) > 0 {
		s = Merge(w.merge, w.half, s)
	}
	if err != nil {
		w.half = s
		return Window[K, V]{Begin: w.began, End: w.began}, err
	}
	out := Window[K, V]{s, w.began, end}
	w.half, w.began = Snapshot[K, V]{}, end
	w.kept = append(w.kept, out)
	old := 0
	for old < len(w.kept)-1 && end.Sub(w.kept[old].End) >= w.keep {
		old++
	}
	w.kept = slices.Delete(w.kept, 0, old) // clears what it moves away
	out.Entries = slices.Clone(out.Entries)
	return out, nil
}

// Last returns the last d in whole windows that have ended, as one; 0 means all that are kept. It
// is longer than d by a part of a window, and shorter where there are no more windows. It waits
// for nothing and does not begin a window.
func (w *Windows[K, V]) Last(d time.Duration) Window[K, V] {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := Window[K, V]{Begin: w.began, End: w.began}
	var parts []Snapshot[K, V]
	for _, win := range slices.Backward(w.kept) {
		if d > 0 && out.Duration() >= d {
			break
		}
		parts, out.Begin = append(parts, win.Snapshot), win.Begin
	}
	slices.Reverse(parts)
	out.Snapshot = Merge(w.merge, parts...)
	return out
}

// Merge returns the entries of all snapshots, in the order in which their keys first occur. A key
// that is in several has the value that merge returns for each two, in order. merge must not
// change its arguments.
//
//	total = mapx.Merge(func(a, b uint64) uint64 { return a + b }, total, window.Snapshot)
func Merge[K comparable, V any](merge func(a, b V) V, parts ...Snapshot[K, V]) Snapshot[K, V] {
	var out Snapshot[K, V]
	at := make(map[K]int)
	for _, part := range parts {
		for _, e := range part.Entries {
			i, ok := at[e.Key]
			if ok {
				out.Entries[i].Value = merge(out.Entries[i].Value, e.Value)
				continue
			}
			at[e.Key] = len(out.Entries)
			out.Entries = append(out.Entries, e)
		}
	}
	return out
}
