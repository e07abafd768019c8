package mapx

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/mapx/internal/layout"
	"github.com/borescope/borescope/mapx/internal/raw"
)

// Map reads a BPF map whose entries have one value each as Go values: a hash, an LRU hash, an
// array, an LPM trie, or a map of maps (whose values are the inner maps' ids, uint32). Storage
// maps have Lookup and Put but no Snapshot, since the kernel doesn't list them. Use NewPerCPU
// for per-CPU maps.
//
// K and V are plain data: integers of fixed size, floats, bools, arrays and structs of those.
// Either may be string, which holds the map's bytes, of any size, for programs that learn their
// meaning at run time. A string that is given to Lookup, Put or Delete is cut to the map's
// size, or has zeros added. Other types are read in place if Go's layout is the map's (as for a
// struct that C or package probe/action lays out), and field by field if the map has the same
// fields packed.
//
// A Map is safe for concurrent use. It borrows the *ebpf.Map, which must stay open, and holds
// no resource of its own.
type Map[K comparable, V any] struct {
	raw        *raw.Map
	key, value layout.Codec
	hint       sizeHint
}

var _ Table[uint32, uint64] = (*Map[uint32, uint64])(nil)

// New returns a typed view of m. It fails if m is of another kind, or if K or V don't fit the
// sizes of m's key and value or, if the map carries BTF that this process may read, their
// fields; the error names the field.
//
// Minimum kernel 5.10; on systems other than Linux it returns *UnsupportedError.
func New[K comparable, V any](m *ebpf.Map) (*Map[K, V], error) {
	if err := raw.Supported("map reading"); err != nil {
		return nil, err
	}
	if err := raw.CheckKind(m, false); err != nil {
		return nil, err
	}
	t := &Map[K, V]{raw: raw.New(m, int(m.ValueSize()))}
	var err error
	if t.key, t.value, err = codecs(m, reflect.TypeFor[K](), reflect.TypeFor[V]()); err != nil {
		return nil, err
	}
	return t, nil
}

// codecs returns the codecs between the types k and v and the map's key and value.
func codecs(m *ebpf.Map, k, v reflect.Type) (key, value layout.Codec, err error) {
	if key, err = layout.NewCodec(k, "key", int(m.KeySize())); err != nil {
		return key, value, fmt.Errorf("map %v: %w", m, err)
	}
	if value, err = layout.NewCodec(v, "value", int(m.ValueSize())); err != nil {
		return key, value, fmt.Errorf("map %v: %w", m, err)
	}
	var kl, vl *layout.Layout // nil if Go's offsets are not the map's: BTF has the map's
	if key.Direct {
		kl = key.Layout
	}
	if value.Direct {
		vl = value.Layout
	}
	return key, value, raw.CheckTypes(m, kl, vl)
}

// Snapshot returns the current entries, in the map's order. An entry that is in the map during
// the whole call is in the snapshot exactly once; one that is inserted or deleted meanwhile may
// be in it or not, but never twice. Entries are read one after the other, so two of them may be
// from different moments; a value that is wider than a machine word may be read in the middle
// of an update, unless the program writes it whole (insert) or atomically.
func (t *Map[K, V]) Snapshot() (Snapshot[K, V], error) {
	entries, err := t.Append(nil)
	return Snapshot[K, V]{Entries: entries}, err
}

// Append is like Snapshot but appends to dst, for callers that reuse the memory. On error
// it also returns the entries read so far.
func (t *Map[K, V]) Append(dst []Entry[K, V]) ([]Entry[K, V], error) {
	return t.appendAll(dst, false)
}

// ReadAndClear returns the entries and removes them. The kernel reads and deletes bucket by
// bucket under the bucket's lock, so no update by bpf_map_update_elem is lost or seen twice.
// But a program may look a value up before the deletion and add to it afterwards, in the same
// run: it then adds to a value that is not read any more. If that matters, use a Flip, which
// loses nothing.
//
// An array can't be cleared without losing the updates between the read and the write:
// ReadAndClear returns *UnsupportedError. Use a Flip, or Delta on snapshots.
func (t *Map[K, V]) ReadAndClear() (Snapshot[K, V], error) {
	if t.raw.IsArray() {
		return Snapshot[K, V]{}, errArrayClear(t.raw.Name)
	}
	entries, err := t.appendAll(nil, true)
	return Snapshot[K, V]{Entries: entries}, err
}

// Zero writes zero to the values of all entries, and keeps the entries. What a program adds to an
// entry between its lookup and the write is lost.
func (t *Map[K, V]) Zero() error { return t.raw.Zero() }

func errArrayClear(name string) error {
	return &UnsupportedError{
		Feature: "ReadAndClear of array " + name,
		Hint:    "updates between read and clear would be lost: use NewFlip, or Delta between snapshots",
	}
}

// drain returns and removes all entries of a map that no program writes.
func (t *Map[K, V]) drain() (Snapshot[K, V], error) {
	if !t.raw.IsArray() {
		return t.ReadAndClear()
	}
	s, err := t.Snapshot()
	if err == nil {
		err = t.raw.ZeroAll()
	}
	return s, err
}

func (t *Map[K, V]) appendAll(dst []Entry[K, V], del bool) ([]Entry[K, V], error) {
	dst = slices.Grow(dst, t.hint.get())
	before := len(dst)
	err := t.raw.Each(del, func(keys, values []byte, n int) bool {
		dst = t.decode(dst, keys, values, n)
		return true
	})
	t.hint.set(len(dst) - before)
	return dst, err
}

// sizeHint is the expected size of the next snapshot, from that of the last one, to save
// growing.
type sizeHint struct{ n atomic.Int64 }

func (h *sizeHint) get() int { return int(h.n.Load()) }

func (h *sizeHint) set(n int) { h.n.Store(int64(n + n/16)) }

func (t *Map[K, V]) decode(dst []Entry[K, V], keys, values []byte, n int) []Entry[K, V] {
	at := len(dst)
	if cap(dst)-at < n {
		dst = append(dst, make([]Entry[K, V], n)...)
	} else {
		dst = dst[:at+n]
	}
	out := dst[at:]
	if t.key.Direct && t.value.Direct {
		ks := unsafe.Slice((*K)(unsafe.Pointer(unsafe.SliceData(keys))), n)
		vs := unsafe.Slice((*V)(unsafe.Pointer(unsafe.SliceData(values))), n)
		for i := range out {
			out[i].Key, out[i].Value = ks[i], vs[i]
		}
		return dst
	}
	for i := range out {
		t.key.Decode(unsafe.Pointer(&out[i].Key), keys[i*t.key.Size:][:t.key.Size])
		t.value.Decode(unsafe.Pointer(&out[i].Value), values[i*t.value.Size:][:t.value.Size])
	}
	return dst
}

// All iterates over the entries with the guarantees of Snapshot, a batch at a time. The
// function that it returns reports the error that ended the loop early, nil if none did.
// Single use.
func (t *Map[K, V]) All() (iter.Seq2[K, V], func() error) {
	var err error
	seq := func(yield func(K, V) bool) {
		var batch []Entry[K, V]
		err = t.raw.Each(false, func(keys, values []byte, n int) bool {
			batch = t.decode(batch[:0], keys, values, n)
			for i := range batch {
				if !yield(batch[i].Key, batch[i].Value) {
					return false
				}
			}
			return true
		})
	}
	return seq, func() error { return err }
}

// Lookup returns the value of one key, and reports whether the map has the key.
func (t *Map[K, V]) Lookup(key K) (V, bool, error) {
	var v V
	b := layout.AlignedBytes(t.value.Size)
	ok, err := t.raw.Lookup(t.key.Encode(nil, unsafe.Pointer(&key)), b)
	if ok {
		t.value.Decode(unsafe.Pointer(&v), b)
	}
	return v, ok, err
}

// Put inserts or replaces an entry.
func (t *Map[K, V]) Put(key K, value V) error {
	err := kernel.MapElem(kernel.MapUpdate, t.raw.M.FD(), t.key.Encode(nil, unsafe.Pointer(&key)),
		t.value.Encode(nil, unsafe.Pointer(&value)), 0)
	if err != nil {
		return t.raw.Failed("update", err)
	}
	return nil
}

// Delete removes an entry. It returns no error if there is none.
func (t *Map[K, V]) Delete(key K) error {
	return t.raw.Delete(t.key.Encode(nil, unsafe.Pointer(&key)))
}

// Clear removes all entries, as bpftrace's clear() does; an array is zeroed.
// Updates that arrive meanwhile may be lost.
func (t *Map[K, V]) Clear() error { return t.raw.Clear() }
