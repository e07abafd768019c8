package collect

import (
	"slices"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
)

// Names of the tables in recordings that have no times.
const (
	untimedCounts = "counts"
	untimedTotals = "totals"
	untimedWaits  = "waits"
)

// untimedKey is the key of tables without times, and untimedPair that of waits.
type untimedKey struct {
	Kernel, User     stackID
	PID, TID         uint32
	Comm             [16]byte
	Program, UserEnd uint32
}

type untimedPair struct{ Task, Waker untimedKey }

func (k *untimedKey) timed() taskKey {
	return taskKey{
		Kernel: k.Kernel, User: k.User, PID: k.PID, TID: k.TID, Comm: k.Comm,
		Program: k.Program, UserEnd: k.UserEnd,
	}
}

// untimed is a table of a recording without times.
type untimed[K, V any] struct {
	mapx.Table[K, V]
	timed func(*mapx.Entry[K, V]) mapx.Entry[waitKey, summed]
}

// Snapshot implements mapx.Table.
func (t *untimed[K, V]) Snapshot() (mapx.Snapshot[waitKey, summed], error) {
	return t.convert(t.Table.Snapshot())
}

// ReadAndClear implements mapx.Table.
func (t *untimed[K, V]) ReadAndClear() (mapx.Snapshot[waitKey, summed], error) {
	return t.convert(t.Table.ReadAndClear())
}

func (t *untimed[K, V]) convert(in mapx.Snapshot[K, V], err error) (mapx.Snapshot[waitKey, summed], error) {
	out := mapx.Snapshot[waitKey, summed]{Entries: make([]mapx.Entry[waitKey, summed], 0, len(in.Entries))}
	for i := range in.Entries {
		out.Entries = append(out.Entries, t.timed(&in.Entries[i]))
	}
	return out, err
}

// replayUntimed returns the table of a recording without times.
func replayUntimed(rec *recording.Recording, tables []string) (mapx.Table[waitKey, summed], error) {
	for _, name := range []string{untimedWaits, untimedTotals} {
		if slices.Contains(tables, name) {
			t, err := recording.ReplayTable[untimedPair, Total](rec, name)
			return &untimed[untimedPair, Total]{t, func(e *mapx.Entry[untimedPair, Total]) (out mapx.Entry[waitKey, summed]) {
				out.Key = waitKey{Task: e.Key.Task.timed(), Waker: e.Key.Waker.timed()}
				out.Value = summed{Count: e.Value.Count, Sum: e.Value.Sum}
				return out
			}}, err
		}
	}
	t, err := recording.ReplayTable[untimedKey, uint64](rec, untimedCounts)
	return &untimed[untimedKey, uint64]{t, func(e *mapx.Entry[untimedKey, uint64]) (out mapx.Entry[waitKey, summed]) {
		out.Key.Task = e.Key.timed()
		out.Value = summed{Count: e.Value, Sum: int64(e.Value)}
		return out
	}}, err
}
