package mapx

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/mapx/internal/layout"
	"github.com/borescope/borescope/mapx/internal/raw"
)

// lossCounter reads the slot in which a program counts the records that it could not emit.
type lossCounter struct {
	m      *ebpf.Map // nil if there is no counter
	key    []byte
	value  []byte
	perCPU bool
	known  uint64
}

func (l *lossCounter) open(m *ebpf.Map, slot uint32) error {
	if m == nil {
		return nil
	}
	size := 8
	switch m.Type() {
	case ebpf.Array:
	case ebpf.PerCPUArray:
		cpus, err := ebpf.PossibleCPU()
		if err != nil {
			return err
		}
		size, l.perCPU = 8*cpus, true
	default:
		return fmt.Errorf("lost counter %v: a %v, not an array", m, m.Type())
	}
	if n := m.ValueSize(); n != 8 {
		return fmt.Errorf("lost counter %v: values of %d bytes, not uint64", m, n)
	}
	if n := m.MaxEntries(); slot >= n {
		return fmt.Errorf("lost counter %v: slot %d of %d", m, slot, n)
	}
	l.m, l.key, l.value = m, binary.NativeEndian.AppendUint32(nil, slot), layout.AlignedBytes(size)
	return nil
}

func (l *lossCounter) read() (uint64, error) {
	if l.m == nil {
		return 0, nil
	}
	if err := kernel.MapElem(kernel.MapLookup, l.m.FD(), l.key, l.value, 0); err != nil {
		return 0, fmt.Errorf("lost counter %v: %w", l.m, raw.Cause(l.m, err))
	}
	sum := uint64(0)
	for b := l.value; len(b) >= 8; b = b[8:] {
		sum += binary.NativeEndian.Uint64(b)
	}
	return sum, nil
}

// since returns the number of records that were lost since the last call. If the counter can't
// be read it returns 0; total returns the error.
func (l *lossCounter) since() uint64 {
	sum, err := l.read()
	if err != nil {
		return 0
	}
	n := sum - l.known
	l.known = sum
	return n
}

// total returns the whole count, and the count by CPU if it is known.
func (l *lossCounter) total() (sum uint64, byCPU []uint64, err error) {
	if sum, err = l.read(); err != nil || !l.perCPU {
		return sum, nil, err
	}
	byCPU = make([]uint64, len(l.value)/8)
	for i := range byCPU {
		byCPU[i] = binary.NativeEndian.Uint64(l.value[8*i:])
	}
	return sum, byCPU, nil
}
