package recording

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/internal/layout"
	"github.com/borescope/borescope/mapx/internal/raw"
)

// MapRecorder records snapshots of a map whose types are not known to the program. ReplayTable
// reads them as any types of the same sizes (those of a per-CPU map rounded up to 8 bytes),
// with the fields that the map's BTF names, if it has any. It is safe for concurrent use; the
// Recorder closes it.
type MapRecorder struct {
	raw   *raw.Map
	start time.Time
	tableWriter

	mu sync.Mutex
}

// RecordMap adds a table to a recording, for any map that can be listed. m is borrowed. It
// needs Linux.
func (r *Recorder) RecordMap(name string, m *ebpf.Map) (*MapRecorder, error) {
	if err := raw.Supported("map reading"); err != nil {
		return nil, err
	}
	perCPU := raw.CheckKind(m, true) == nil
	if err := raw.CheckKind(m, perCPU); err != nil {
		return nil, err
	}
	w := &MapRecorder{start: r.start}
	key, value := layout.Untyped(int(m.KeySize())), layout.Untyped(int(m.ValueSize()))
	size := value.Size
	if perCPU {
		cpus, err := ebpf.PossibleCPU()
		if err != nil {
			return nil, err
		}
		// In the kernel's form: every CPU's value padded to 8 bytes.
		value.Size = (value.Size + 7) &^ 7
		value.Slice, size = true, value.Size*cpus
	}
	describe(m, key, value)
	w.raw = raw.New(m, size)
	err := r.create(name, ".table", func(f *os.File) (io.Closer, error) {
		w.file, w.key, w.value = f, *key, *value
		var err error
		w.out, err = newChunkWriter(name, "table", f, r.enc,
			tableHeader{Start: r.start, Order: nativeOrder(), Key: *key, Value: *value})
		return &w.tableWriter, err
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// describe sets the layouts' fields to those of the map's BTF, if the map has BTF that this
// process may read and that has a fixed layout.
func describe(m *ebpf.Map, key, value *layout.Layout) {
	types, err := layout.MapTypes(m)
	if err != nil {
		return
	}
	for i, l := range []*layout.Layout{key, value} {
		var w layout.BtfWalk
		if types[i] != nil && w.Add(types[i], "", 0) && len(w.Fields) > 0 {
			if last := w.Fields[len(w.Fields)-1]; last.Offset+last.Span() <= l.Size {
				l.Fields = w.Fields
			}
		}
	}
}

// Snapshot records the entries as they are now, with the guarantees of Map.Snapshot, and
// returns their number.
func (w *MapRecorder) Snapshot() (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, total := time.Since(w.start), 0
	var keys, values []byte
	err := w.raw.Each(false, func(k, v []byte, n int) bool {
		keys, values = append(keys, k...), append(values, v...)
		total += n
		return true
	})
	if err != nil {
		return 0, err
	}
	width := w.raw.ValueSize / w.value.Size
	perChunk := max(1, flushBytes/(w.key.Size+w.raw.ValueSize))
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	for left := total; ; {
		n := min(left, perChunk)
		left -= n
		op := byte(opSnapshot)
		if left > 0 {
			op |= opMore
		}
		p := binary.AppendVarint(append(w.payload[:0], op), int64(now))
		p = binary.AppendUvarint(p, uint64(n))
		if w.value.Slice {
			p = binary.AppendUvarint(p, uint64(width))
		}
		p = append(append(p, keys[:n*w.key.Size]...), values[:n*w.raw.ValueSize]...)
		keys, values = keys[n*w.key.Size:], values[n*w.raw.ValueSize:]
		w.payload = p
		if err := w.writePayload(); err != nil || left == 0 {
			return total, err
		}
	}
}

// Dump reads a recorded table without knowing its types.
type Dump struct {
	in     *chunkReader
	pace   *pacer
	header tableHeader
}

// DumpTable returns the recorded table of that name for printing, at the speed set by Pace.
// The recording closes it.
func (r *Recording) DumpTable(name string) (*Dump, error) {
	f, err := r.openFile(name, ".table")
	if err != nil {
		return nil, err
	}
	d := &Dump{pace: r.pacer()}
	if d.in, err = newChunkReader(name, "table", f, &d.header); err != nil {
		return nil, err
	}
	for _, l := range []*layout.Layout{&d.header.Key, &d.header.Value} {
		if err := l.Valid(); err != nil {
			return nil, d.in.corrupt(err.Error())
		}
	}
	return d, nil
}

// Next returns the next snapshot as text: the entries' keys and values by their
// fields, those of all CPUs for a per-CPU map. It returns io.EOF at the end, and
// the errors of ReplayedTable.
func (d *Dump) Next() (at time.Time, op string, entries []mapx.Entry[string, string], err error) {
	for held, more := int64(0), false; ; more = true {
		payload, err := d.in.part(held, more)
		if err != nil {
			return time.Time{}, "", nil, err
		}
		q := parser{b: payload[1:]}
		at, n, width := q.varint(), q.uvarint(), uint64(1)
		if d.header.Value.Slice {
			width = q.uvarint()
		}
		k, v := uint64(d.header.Key.Size), uint64(d.header.Value.Size)*min(width, 1<<20)
		if q.bad || n > uint64(len(q.b)) || v > layout.MaxChunk || n*(k+v) != uint64(len(q.b)) {
			return time.Time{}, "", nil, d.in.corrupt(errBadChunk.Error())
		}
		one := 4*int64(unsafe.Sizeof("")) + d.header.Key.TextBytes() +
			int64(width)*(valueBytes+d.header.Value.TextBytes())
		if one > layout.MaxChunk {
			return time.Time{}, "", nil, d.in.corrupt(fmt.Sprintf("an entry of %d bytes of text", one))
		}
		held += int64(n) * one
		if err := errors.Join(d.in.hold(held), d.in.spend(int64(n)*one/4, n)); err != nil {
			return time.Time{}, "", nil, err
		}
		keys, values := q.bytes(n*k), q.b
		entries = slices.Grow(entries, int(n))
		for range n {
			entries = append(entries, mapx.Entry[string, string]{
				Key:   d.header.Key.Text(keys[:k], d.header.Order),
				Value: d.values(values[:v]),
			})
			keys, values = keys[k:], values[v:]
		}
		if payload[0]&opMore == 0 {
			if err := d.pace.wait(context.Background(), nil, time.Duration(at)); err != nil {
				return time.Time{}, "", nil, err
			}
			return d.header.Start.Add(time.Duration(at)), opName(payload[0]), entries, nil
		}
	}
}

// valueBytes is the memory of one CPU's value besides its text, in bytes.
const valueBytes = 64

// values returns the text of one value, or of one for each CPU.
func (d *Dump) values(b []byte) string {
	l := &d.header.Value
	if !l.Slice || l.Size == 0 {
		return l.Text(b, d.header.Order)
	}
	var parts []string
	for ; len(b) >= l.Size; b = b[l.Size:] {
		parts = append(parts, l.Text(b[:l.Size], d.header.Order))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
