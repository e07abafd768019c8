package stacktest

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
)

// Words returns 64-bit words in little-endian order.
func Words(w ...uint64) (b []byte) {
	for _, v := range w {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// Run is the bytes at consecutive addresses from Addr on, in hex.
type Run struct {
	Addr uint64
	Data string
}

// Memory is stack.Memory.
type Memory interface {
	ReadMemory(dst []byte, addr uint64) error
}

// Recorder keeps the bytes that are read from Memory, by address.
type Recorder struct {
	Memory
	Bytes map[uint64]byte
}

// ReadMemory implements stack.Memory.
func (m *Recorder) ReadMemory(dst []byte, addr uint64) error {
	if err := m.Memory.ReadMemory(dst, addr); err != nil {
		return err
	}
	for i, b := range dst {
		m.Bytes[addr+uint64(i)] = b
	}
	return nil
}

// Runs returns the bytes that were read, in order of their addresses.
func (m *Recorder) Runs() (out []Run) {
	var data []byte
	var from uint64
	flush := func() {
		if len(data) > 0 {
			out = append(out, Run{from, hex.EncodeToString(data)})
		}
		data = nil
	}
	for _, addr := range slices.Sorted(maps.Keys(m.Bytes)) {
		if addr != from+uint64(len(data)) {
			flush()
			from = addr
		}
		data = append(data, m.Bytes[addr])
	}
	flush()
	return out
}
