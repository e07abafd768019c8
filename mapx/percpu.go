package mapx

import (
	"fmt"
	"iter"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/mapx/internal/layout"
	"github.com/borescope/borescope/mapx/internal/raw"
)

// PerCPU reads a BPF map whose entries have a value per CPU: a per-CPU hash, LRU hash, array or
// cgroup storage. Its table's values are slices with one element per *possible* CPU, indexed by
// CPU number. On many machines that is more than the online CPUs and than runtime.NumCPU. All
// slices of a snapshot share a few backing arrays. Sum and Reduce return views with one value
// per entry.
//
// K and V are plain data as for Map. A PerCPU is safe for concurrent use. It borrows the
// *ebpf.Map, which must stay open, and holds no resource of its own.
type PerCPU[K comparable, V any] struct {
	raw        *raw.Map
	key, value layout.Codec
	stride     int // bytes from one CPU's value to the next
	cpus       int
	hint       sizeHint
}

var _ Table[uint32, []uint64] = (*PerCPU[uint32, uint64])(nil)

// NewPerCPU returns a typed view of m, with the checks of New.
//
// Minimum kernel 5.10; on systems other than Linux it returns *UnsupportedError.
func NewPerCPU[K comparable, V any](m *ebpf.Map) (*PerCPU[K, V], error) {
	if err := raw.Supported("per-CPU map reading"); err != nil {
		return nil, err
	}
	if err := raw.CheckKind(m, true); err != nil {
		return nil, err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("map %v: %w", m, err)
	}
	// The kernel rounds each CPU's value up to 8 bytes (bpf_map_value_size,
	// kernel/bpf/syscall.c).
	stride := (int(m.ValueSize()) + 7) &^ 7
	t := &PerCPU[K, V]{raw: raw.New(m, stride*cpus), stride: stride, cpus: cpus}
	if t.key, t.value, err = codecs[K, V](m); err != nil {
		return nil, err
	}
	return t, nil
}

// CPUs returns the number of possible CPUs: the length of every value.
func (t *PerCPU[K, V]) CPUs() int { return t.cpus }

// Snapshot returns the current entries, with the guarantees of Map.Snapshot.
func (t *PerCPU[K, V]) Snapshot() (Snapshot[K, []V], error) { return t.read(false) }

// ReadAndClear returns the entries and removes them, with the guarantees of Map.ReadAndClear.
// For an array it returns *UnsupportedError.
func (t *PerCPU[K, V]) ReadAndClear() (Snapshot[K, []V], error) {
	if t.raw.IsArray() {
		return Snapshot[K, []V]{}, errArrayClear(t.raw.Name)
	}
	return t.read(true)
}

func (t *PerCPU[K, V]) drain() (Snapshot[K, []V], error) {
	if !t.raw.IsArray() {
		return t.read(true)
	}
	s, err := t.read(false)
	if err == nil {
		err = t.raw.ZeroAll()
	}
	return s, err
}

func (t *PerCPU[K, V]) read(del bool) (Snapshot[K, []V], error) {
	entries := make([]Entry[K, []V], 0, t.hint.get())
	err := t.raw.Each(del, func(keys, values []byte, n int) bool {
		entries = t.decode(entries, make([]V, n*t.cpus), keys, values, n)
		return true
	})
	t.hint.set(len(entries))
	return Snapshot[K, []V]{Entries: entries}, err
}

// decode appends n entries, whose values it stores in backing.
func (t *PerCPU[K, V]) decode(dst []Entry[K, []V], backing []V, keys, values []byte,
	n int,
) []Entry[K, []V] {
	t.decodeValues(backing, values, n)
	for i := range n {
		var e Entry[K, []V]
		t.key.Decode(unsafe.Pointer(&e.Key), keys[i*t.key.Size:][:t.key.Size])
		e.Value = backing[i*t.cpus : (i+1)*t.cpus : (i+1)*t.cpus]
		dst = append(dst, e)
	}
	return dst
}

func (t *PerCPU[K, V]) decodeValues(backing []V, values []byte, n int) {
	if t.value.Direct && t.stride == t.value.Size {
		copy(backing, unsafe.Slice((*V)(unsafe.Pointer(unsafe.SliceData(values))), n*t.cpus))
		return
	}
	for i := range n * t.cpus {
		t.value.Decode(unsafe.Pointer(&backing[i]), values[i*t.stride:][:t.value.Size])
	}
}

// All iterates over the entries with the guarantees of Snapshot, a batch at a time; a
// value's slice is valid until the next iteration. The function that it returns reports the
// error that ended the loop early, nil if none did. Single use.
func (t *PerCPU[K, V]) All() (iter.Seq2[K, []V], func() error) {
	var err error
	seq := func(yield func(K, []V) bool) {
		var backing []V
		err = t.raw.Each(false, func(keys, values []byte, n int) bool {
			if len(backing) < n*t.cpus {
				backing = make([]V, n*t.cpus)
			}
			t.decodeValues(backing, values, n)
			for i := range n {
				var k K
				t.key.Decode(unsafe.Pointer(&k), keys[i*t.key.Size:][:t.key.Size])
				if !yield(k, backing[i*t.cpus:(i+1)*t.cpus:(i+1)*t.cpus]) {
					return false
				}
			}
			return true
		})
	}
	return seq, func() error { return err }
}

// Lookup returns the values of one key, one per possible CPU, and reports whether the map has
// the key.
func (t *PerCPU[K, V]) Lookup(key K) ([]V, bool, error) {
	b := layout.AlignedBytes(t.raw.ValueSize)
	ok, err := t.raw.Lookup(t.key.Encode(nil, unsafe.Pointer(&key)), b)
	if !ok {
		return nil, false, err
	}
	v := make([]V, t.cpus)
	t.decodeValues(v, b, 1)
	return v, true, nil
}

// Put sets the values of one key, one per possible CPU; missing ones become zero.
func (t *PerCPU[K, V]) Put(key K, values []V) error {
	if len(values) > t.cpus {
		return fmt.Errorf("update %s: %d values for %d CPUs", t.raw.Name, len(values), t.cpus)
	}
	b := layout.AlignedBytes(t.raw.ValueSize)
	for i := range values {
		t.value.Encode(b[i*t.stride:i*t.stride], unsafe.Pointer(&values[i]))
	}
	err := kernel.MapElem(kernel.MapUpdate, t.raw.M.FD(), t.key.Encode(nil, unsafe.Pointer(&key)), b,
		0)
	if err != nil {
		return t.raw.Failed("update", err)
	}
	return nil
}

// Delete removes an entry. It returns no error if there is none.
func (t *PerCPU[K, V]) Delete(key K) error {
	return t.raw.Delete(t.key.Encode(nil, unsafe.Pointer(&key)))
}

// Zero sets every value to zero and keeps the keys, as bpftrace's zero() does.
// Updates that arrive meanwhile may be lost.
func (t *PerCPU[K, V]) Zero() error { return t.raw.Zero() }
