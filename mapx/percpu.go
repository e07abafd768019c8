package mapx

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
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
type PerCPU[K comparable, V any] struct{ perCPU }

// perCPU is the part of a PerCPU that does not depend on its types.
type perCPU struct {
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
	t := &PerCPU[K, V]{}
	if err := t.open(m, reflect.TypeFor[K](), reflect.TypeFor[V]()); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *perCPU) open(m *ebpf.Map, k, v reflect.Type) (err error) {
	if err := raw.Supported("per-CPU map reading"); err != nil {
		return err
	}
	if err := raw.CheckKind(m, true); err != nil {
		return err
	}
	if t.cpus, err = ebpf.PossibleCPU(); err != nil {
		return fmt.Errorf("map %v: %w", m, err)
	}
	// The kernel rounds each CPU's value up to 8 bytes (bpf_map_value_size,
	// kernel/bpf/syscall.c).
	t.stride = (int(m.ValueSize()) + 7) &^ 7
	t.raw = raw.New(m, t.stride*t.cpus)
	t.key, t.value, err = codecs(m, k, v)
	return err
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
		backing, at := make([]V, n*t.cpus), len(entries)
		entries = slices.Grow(entries, n)[:at+n]
		t.decode(entriesOf(entries[at:]), memoryOf(backing), keys, values)
		return true
	})
	t.hint.set(len(entries))
	return Snapshot[K, []V]{Entries: entries}, err
}

// entriesOf returns the entries as memory.
func entriesOf[K, V any](list []Entry[K, V]) layout.Entries {
	var e Entry[K, V]
	return layout.EntriesOf(list, unsafe.Offsetof(e.Value))
}

// memory is where values of one type are, each of so many bytes.
type memory struct {
	data unsafe.Pointer
	size uintptr
}

func (m memory) at(i int) unsafe.Pointer { return unsafe.Add(m.data, uintptr(i)*m.size) }

func memoryOf[V any](list []V) memory {
	var v V
	return memory{unsafe.Pointer(unsafe.SliceData(list)), unsafe.Sizeof(v)}
}

// decode sets the entries of dst, whose values it stores in backing.
func (t *perCPU) decode(dst layout.Entries, backing memory, keys, values []byte) {
	t.decodeValues(backing, values, dst.N)
	for i := range dst.N {
		t.key.Decode(dst.Key(i), keys[i*t.key.Size:][:t.key.Size])
		layout.SetSlice(dst.ValueOf(i), backing.at(i*t.cpus), t.cpus)
	}
}

func (t *perCPU) decodeValues(backing memory, values []byte, n int) {
	if t.value.Direct && t.stride == t.value.Size {
		copy(unsafe.Slice((*byte)(backing.data), n*t.cpus*t.value.Size), values)
		return
	}
	for i := range n * t.cpus {
		t.value.Decode(backing.at(i), values[i*t.stride:][:t.value.Size])
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
			t.decodeValues(memoryOf(backing), values, n)
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
	t.decodeValues(memoryOf(v), b, 1)
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
