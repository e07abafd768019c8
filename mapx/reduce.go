package mapx

// Number is the constraint of the values of Sum, Min, Max and Average.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Reduce returns a view of a per-CPU table, live or replayed, in which each value is the result
// of fn for the values of all possible CPUs. fn must not keep its argument. The view is as safe
// for concurrent use as t and fn are.
func Reduce[K, V, R any](t Table[K, []V], fn func(cpus []V) R) Table[K, R] {
	return &reduced[K, V, R]{table: t, fn: fn}
}

type reduced[K, V, R any] struct {
	table Table[K, []V]
	fn    func([]V) R
}

// Snapshot reduces a snapshot of the table.
func (r *reduced[K, V, R]) Snapshot() (Snapshot[K, R], error) {
	return r.reduce(r.table.Snapshot())
}

// ReadAndClear reduces the entries that the table returned and removed.
func (r *reduced[K, V, R]) ReadAndClear() (Snapshot[K, R], error) {
	return r.reduce(r.table.ReadAndClear())
}

func (r *reduced[K, V, R]) reduce(s Snapshot[K, []V], err error) (Snapshot[K, R], error) {
	out := make([]Entry[K, R], len(s.Entries))
	for i := range s.Entries {
		out[i] = Entry[K, R]{Key: s.Entries[i].Key, Value: r.fn(s.Entries[i].Value)}
	}
	return Snapshot[K, R]{Entries: out}, err
}

// Sum returns a view of a per-CPU table in which each value is the sum over all
// possible CPUs; integers wrap as in Go.
func Sum[K any, V Number](t Table[K, []V]) Table[K, V] {
	return Reduce(t, func(cpus []V) V {
		var sum V
		for _, v := range cpus {
			sum += v
		}
		return sum
	})
}

// SumOf is Sum for values that are structs: fn adds *v to *sum.
func SumOf[K, V any](t Table[K, []V], fn func(sum, v *V)) Table[K, V] {
	return Reduce(t, func(cpus []V) V {
		var sum V
		for i := range cpus {
			fn(&sum, &cpus[i])
		}
		return sum
	})
}
