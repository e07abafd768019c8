package mapx

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/mapx/internal/raw"
)

// Flip is a table whose ReadAndClear loses nothing, for maps of every kind, arrays included. It
// has two maps, one of which programs write to; they find it through a slot of an array of
// maps. ReadAndClear puts the other map into the slot. The kernel returns from that only when
// every program run that might still hold the first map has ended: it waits for the RCU grace
// period after changing a map of maps (maybe_wait_bpf_programs, kernel/bpf/syscall.c, Linux
// 4.20; on kernels before 6.8 that leaves out sleepable programs). Then no program writes to
// the first map, and it is read and emptied.
//
// The wait takes some milliseconds, tens on a busy machine. A Flip is safe for concurrent use.
// It borrows its maps and holds no resource of its own.
type Flip[K comparable, V any] struct {
	mu     sync.Mutex // guards pair
	pair   pair
	tables [2]drainer[K, V]
}

// pair is the slot of two maps, and which of them it points to.
type pair struct {
	outer  *ebpf.Map
	slot   uint32
	fds    [2]int
	active int
}

// drainer is the part of Map and PerCPU that a Flip uses.
type drainer[K, V any] interface {
	Table[K, V]
	drain() (Snapshot[K, V], error)
}

var _ Table[uint32, uint64] = (*Flip[uint32, uint64])(nil)

// NewFlip returns a Flip of two maps of the same kind. It puts a into outer[slot], where
// programs find it. outer is an array of maps.
func NewFlip[K comparable, V any](outer *ebpf.Map, slot uint32, a, b *Map[K, V]) (*Flip[K, V],
	error,
) {
	if outer == nil || a == nil || b == nil {
		return nil, fmt.Errorf("flip: %w", raw.ErrNoMap)
	}
	f := &Flip[K, V]{tables: [2]drainer[K, V]{a, b}}
	if err := f.pair.open(outer, slot, a.raw, b.raw); err != nil {
		return nil, err
	}
	return f, nil
}

// NewFlipPerCPU is NewFlip for two per-CPU maps.
func NewFlipPerCPU[K comparable, V any](outer *ebpf.Map, slot uint32, a,
	b *PerCPU[K, V],
) (*Flip[K, []V], error) {
	if outer == nil || a == nil || b == nil {
		return nil, fmt.Errorf("flip: %w", raw.ErrNoMap)
	}
	f := &Flip[K, []V]{tables: [2]drainer[K, []V]{a, b}}
	if err := f.pair.open(outer, slot, a.raw, b.raw); err != nil {
		return nil, err
	}
	return f, nil
}

func (p *pair) open(outer *ebpf.Map, slot uint32, a, b *raw.Map) error {
	if t := outer.Type(); t != ebpf.ArrayOfMaps {
		return fmt.Errorf("flip %v: a %v, not an array of maps", outer, t)
	}
	if n := outer.MaxEntries(); slot >= n {
		return fmt.Errorf("flip %v: slot %d of %d", outer, slot, n)
	}
	p.outer, p.slot, p.fds = outer, slot, [2]int{a.M.FD(), b.M.FD()}
	return p.point(0)
}

// point makes programs write to map i of the two.
func (p *pair) point(i int) error {
	var key, value [4]byte
	binary.NativeEndian.PutUint32(key[:], p.slot)
	binary.NativeEndian.PutUint32(value[:], uint32(p.fds[i]))
	if err := kernel.MapElem(kernel.MapUpdate, p.outer.FD(), key[:], value[:], 0); err != nil {
		return fmt.Errorf("flip %v: %w", p.outer, raw.Cause(p.outer, err))
	}
	p.active = i
	return nil
}

// Snapshot returns the entries that were written since the last ReadAndClear,
// with the guarantees of Map.Snapshot.
func (f *Flip[K, V]) Snapshot() (Snapshot[K, V], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tables[f.pair.active].Snapshot()
}

// ReadAndClear returns the entries that were written since the last call, and removes them.
// Every update is in exactly one result: this one or the next. Unlike a snapshot's, the
// values are final: no program was writing them.
//
// After an error the map keeps the entries that were not read, for the next call.
func (f *Flip[K, V]) ReadAndClear() (Snapshot[K, V], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.pair.active
	if err := f.pair.point(1 - old); err != nil {
		return Snapshot[K, V]{}, err
	}
	return f.tables[old].drain()
}
