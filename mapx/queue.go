package mapx

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
)

// Queue reads and writes a BPF queue or stack map, which has values and no keys.
// V is plain data as for Map. A Queue is safe for concurrent use; it borrows the
// *ebpf.Map, which must stay open.
type Queue[V any] struct {
	raw   *rawMap
	value codec
}

// NewQueue returns a typed view of m, with the checks of New. Linux only.
func NewQueue[V any](m *ebpf.Map) (*Queue[V], error) {
	if err := supported("queue reading"); err != nil {
		return nil, err
	}
	if m == nil {
		return nil, errNoMap
	}
	if m.Type() != ebpf.Queue && m.Type() != ebpf.Stack {
		return nil, fmt.Errorf("map %v is neither a queue nor a stack", m)
	}
	value, err := newCodec[V]("value", int(m.ValueSize()))
	if err != nil {
		return nil, fmt.Errorf("map %v: %w", m, err)
	}
	return &Queue[V]{raw: newRawMap(m, int(m.ValueSize())), value: value}, nil
}

// Push adds a value. A full map is an error that wraps syscall.E2BIG.
func (q *Queue[V]) Push(v V) error {
	err := kernel.MapElem(kernel.MapUpdate, q.raw.m.FD(), nil, q.value.encode(nil, unsafe.Pointer(&v)), 0)
	if err != nil {
		return q.raw.error("push", err)
	}
	return nil
}

// Pop removes and returns the oldest value of a queue, the newest of a stack;
// false says that there is none.
func (q *Queue[V]) Pop() (V, bool, error) { return q.take("pop", kernel.MapLookupAndDelete) }

// Peek is Pop without removing.
func (q *Queue[V]) Peek() (V, bool, error) { return q.take("peek", kernel.MapLookup) }

func (q *Queue[V]) take(op string, cmd kernel.MapCommand) (V, bool, error) {
	var v V
	b := alignedBytes(q.value.size)
	err := kernel.MapElem(cmd, q.raw.m.FD(), nil, b, 0)
	if err == syscall.ENOENT {
		return v, false, nil
	}
	if err != nil {
		return v, false, q.raw.error(op, err)
	}
	q.value.decode(unsafe.Pointer(&v), b)
	return v, true, nil
}

// Drain pops values until there are none, but no more than the map can hold, so
// that it ends under programs that push. Each value is returned exactly once.
func (q *Queue[V]) Drain() ([]V, error) {
	var out []V
	for range q.raw.maxEntries {
		v, ok, err := q.Pop()
		if !ok || err != nil {
			return out, err
		}
		out = append(out, v)
	}
	return out, nil
}

// Bloom asks and fills a BPF bloom filter (Linux 5.16), which can only say
// whether a value was perhaps added. V is plain data as for Map. A Bloom is safe
// for concurrent use; it borrows the *ebpf.Map, which must stay open.
type Bloom[V any] struct {
	raw   *rawMap
	value codec
}

// NewBloom returns a typed view of m, with the checks of New. Linux only.
func NewBloom[V any](m *ebpf.Map) (*Bloom[V], error) {
	if err := supported("bloom filter reading"); err != nil {
		return nil, err
	}
	if m == nil {
		return nil, errNoMap
	}
	if m.Type() != ebpf.BloomFilter {
		return nil, fmt.Errorf("map %v is no bloom filter", m)
	}
	value, err := newCodec[V]("value", int(m.ValueSize()))
	if err != nil {
		return nil, fmt.Errorf("map %v: %w", m, err)
	}
	return &Bloom[V]{raw: newRawMap(m, int(m.ValueSize())), value: value}, nil
}

// Add adds a value.
func (b *Bloom[V]) Add(v V) error {
	err := kernel.MapElem(kernel.MapUpdate, b.raw.m.FD(), nil, b.value.encode(nil, unsafe.Pointer(&v)), 0)
	if err != nil {
		return b.raw.error("add", err)
	}
	return nil
}

// Has reports whether the value was perhaps added; false is certain.
func (b *Bloom[V]) Has(v V) (bool, error) {
	return b.raw.lookup(nil, b.value.encode(nil, unsafe.Pointer(&v)))
}
