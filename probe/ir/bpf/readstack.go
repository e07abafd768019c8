package bpf

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
)

// joined is several tables read as one: the classes of an aggregation by stack.
type joined[K, V any] []mapx.Table[K, V]

// Snapshot returns the entries of all tables, one table after the other.
func (j joined[K, V]) Snapshot() (mapx.Snapshot[K, V], error) {
	return j.all(mapx.Table[K, V].Snapshot)
}

// ReadAndClear returns the entries of all tables and removes them.
func (j joined[K, V]) ReadAndClear() (mapx.Snapshot[K, V], error) {
	return j.all(mapx.Table[K, V].ReadAndClear)
}

func (j joined[K, V]) all(read func(mapx.Table[K, V]) (mapx.Snapshot[K, V],
	error),
) (mapx.Snapshot[K, V], error) {
	var out mapx.Snapshot[K, V]
	var errs []error
	for _, t := range j {
		s, err := read(t)
		out.Entries = append(out.Entries, s.Entries...)
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// stackTable opens an aggregation by stack, whose entries are in one map per class of depth.
func stackTable[K comparable, V, R any](s Reader, m *ir.Map,
	reduce func([]V) (R, bool),
) (mapx.Table[K, R], error) {
	if _, err := sourceOf(s); err != nil {
		return nil, fmt.Errorf("open %s: %w", m.Name, err)
	}
	if isOpaque[K]() {
		return opaqueStackTable[K](s, m, reduce)
	}
	open := classTable[K, K, V, R]
	// The kernel's keys may be shorter than K: see check.KeyLimit.
	if em := tableMap(s, m); em != nil && em.KeySize() == check.MaxKey {
		open = classTable[K, [check.MaxKey / 8]uint64, V, R]
	}
	deep, err := open(s, m.Name, reduce)
	if err != nil && s.source().replay != nil { // recorded with shorter keys
		if short, again := classTable[K, [check.MaxKey / 8]uint64](s, m.Name, reduce); again == nil {
			deep, err = short, nil
		}
	}
	if err != nil {
		return nil, err
	}
	shallow, err := classTable[K, [8]uint64](s, check.ClassName(m, 8), reduce)
	if err != nil {
		return nil, err
	}
	if len(check.ClassesOf(m)) == 1 {
		return joined[K, R]{shallow, deep}, nil
	}
	middle, err := classTable[K, [24]uint64](s, check.ClassName(m, 24), reduce)
	return joined[K, R]{shallow, middle, deep}, err
}

// classTable opens the map of one class and widens its keys S to K.
func classTable[K comparable, S comparable, V, R any](s Reader, name string,
	reduce func([]V) (R, bool),
) (mapx.Table[K, R], error) {
	return widened(s, name, func(key S) (k K) {
		reflect.Copy(reflect.ValueOf(&k).Elem().Slice(0, reflect.TypeFor[K]().Len()),
			reflect.ValueOf(&key).Elem())
		return k
	}, reduce)
}

// opaqueStackTable is stackTable for keys that are strings.
func opaqueStackTable[K comparable, V, R any](h Reader, m *ir.Map,
	reduce func([]V) (R, bool),
) (mapx.Table[K, R], error) {
	var all joined[K, R]
	for _, name := range depthNames(m) {
		t, err := widened(h, name, func(key string) K {
			return any(key + string(make([]byte, max(m.Key.Size-len(key), 0)))).(K)
		}, reduce)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// depthNames returns the name of a map, and those of the classes of an aggregation by stack.
func depthNames(m *ir.Map) []string {
	names := []string{m.Name}
	for _, n := range check.ClassesOf(m) {
		names = append(names, check.ClassName(m, n))
	}
	return names
}

// widened opens the map of one class with its own keys S; widen converts them to K.
func widened[S, K comparable, V, R any](h Reader, name string, widen func(S) K,
	reduce func([]V) (R, bool),
) (mapx.Table[K, R], error) {
	in, err := openPerCPU[S, V](h, name)
	if err != nil {
		return nil, err
	}
	return &table[S, []V, K, R]{in, each(func(e mapx.Entry[S, []V]) (mapx.Entry[K, R], bool) {
		r, ok := reduce(e.Value)
		return mapx.Entry[K, R]{Key: widen(e.Key), Value: r}, ok
	})}, nil
}
