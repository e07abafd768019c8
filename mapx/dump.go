package mapx

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
)

// MapRecorder writes down snapshots of a map whose types the program does not
// know. ReplayTable reads them as any types of the same sizes, those of a per-CPU
// map rounded up to 8 bytes; with the fields that the map's BTF names, if it has
// any. It is safe for concurrent use; the Recorder closes it.
type MapRecorder struct {
	raw   *rawMap
	start time.Time
	tableWriter

	mu sync.Mutex
}

// RecordMap adds a table to a recording for any map that can be listed. m is
// borrowed. Linux only.
func (r *Recorder) RecordMap(name string, m *ebpf.Map) (*MapRecorder, error) {
	if err := supported("map reading"); err != nil {
		return nil, err
	}
	perCPU := checkKind(m, true) == nil
	if err := checkKind(m, perCPU); err != nil {
		return nil, err
	}
	w := &MapRecorder{start: r.start}
	key, value := untyped(int(m.KeySize())), untyped(int(m.ValueSize()))
	size := value.Size
	if perCPU {
		cpus, err := ebpf.PossibleCPU()
		if err != nil {
			return nil, err
		}
		// As the kernel gives it: every CPU's value padded to 8 bytes.
		value.Size = (value.Size + 7) &^ 7
		value.Slice, size = true, value.Size*cpus
	}
	describe(m, key, value)
	w.raw = newRawMap(m, size)
	err := r.create(name, ".table", func(f *os.File) (io.Closer, error) {
		w.file, w.slice, w.keySize, w.valueSize = f, value.Slice, key.Size, value.Size
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

// untyped is the layout of n bytes that nobody knows more about.
func untyped(n int) *layout {
	return &layout{Size: n, Fields: []field{{Size: 1, Kind: "u", Count: n}}}
}

// isUntyped reports whether a layout says nothing but its size.
func (l *layout) isUntyped() bool {
	return len(l.Fields) == 1 && l.Fields[0].Size == 1 && l.Fields[0].Kind == "u" && l.Fields[0].Count > 0
}

// describe puts the fields of the map's BTF into the layouts, where it has one
// that this process may read and that says it all.
func describe(m *ebpf.Map, key, value *layout) {
	types, err := mapTypes(m)
	if err != nil {
		return
	}
	for i, l := range []*layout{key, value} {
		var w btfWalk
		if types[i] != nil && w.add(types[i], "", 0) && len(w.fields) > 0 {
			if last := w.fields[len(w.fields)-1]; last.Offset+last.span() <= l.Size {
				l.Fields = w.fields
			}
		}
	}
}

// mapTypes returns the BTF types of key and value, nil where there are none.
func mapTypes(m *ebpf.Map) (types [2]btf.Type, err error) {
	info, err := kernel.GetMapInfo(m.FD())
	if err != nil || info.BTFID == 0 || info.BTFKeyType == 0 && info.BTFValueType == 0 {
		return types, err
	}
	h, err := m.Handle()
	if err != nil {
		return types, nil // another process's BTF needs CAP_SYS_ADMIN
	}
	defer h.Close()
	spec, err := h.Spec(nil)
	if err != nil {
		return types, fmt.Errorf("BTF of %v: %w", m, err)
	}
	for i, id := range []uint32{info.BTFKeyType, info.BTFValueType} {
		if id == 0 {
			continue
		}
		if types[i], err = spec.TypeByID(btf.TypeID(id)); err != nil {
			return types, fmt.Errorf("BTF of %v: %w", m, err)
		}
	}
	return types, nil
}

// Snapshot writes down the entries as they are now, with the guarantees of
// Map.Snapshot, and returns how many there are.
func (w *MapRecorder) Snapshot() (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, total := time.Since(w.start), 0
	var keys, values []byte
	err := w.raw.each(false, func(k, v []byte, n int) bool {
		keys, values = append(keys, k...), append(values, v...)
		total += n
		return true
	})
	if err != nil {
		return 0, err
	}
	width := w.raw.valueSize / w.valueSize
	perChunk := max(1, flushBytes/(w.keySize+w.raw.valueSize))
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
		if w.slice {
			p = binary.AppendUvarint(p, uint64(width))
		}
		p = append(append(p, keys[:n*w.keySize]...), values[:n*w.raw.valueSize]...)
		keys, values = keys[n*w.keySize:], values[n*w.raw.valueSize:]
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

// DumpTable returns the recorded table of that name for printing, at the speed
// that Pace set. The recording closes it.
func (r *Recording) DumpTable(name string) (*Dump, error) {
	f, err := r.openFile(name, ".table")
	if err != nil {
		return nil, err
	}
	d := &Dump{pace: r.pacer()}
	if d.in, err = newChunkReader(name, "table", f, &d.header); err != nil {
		return nil, err
	}
	for _, l := range []*layout{&d.header.Key, &d.header.Value} {
		if err := l.valid(); err != nil {
			return nil, d.in.corrupt(err.Error())
		}
	}
	return d, nil
}

// valid checks a layout that came from a file.
func (l *layout) valid() error {
	if l.Size < 0 || l.Size > maxChunk || len(l.Fields) > maxFields {
		return fmt.Errorf("layout of %d bytes with %d fields", l.Size, len(l.Fields))
	}
	for i := range l.Fields {
		f := &l.Fields[i]
		ok := f.Size == 1 || f.Size == 2 || f.Size == 4 || f.Size == 8
		if !ok || f.Offset < 0 || f.Count < 0 || f.Count > l.Size || f.Offset > l.Size-f.span() {
			return fmt.Errorf("field %q outside of the value", f.Name)
		}
	}
	return nil
}

// Next returns the next snapshot as text: the entries' keys and values by their
// fields, those of all CPUs for a per-CPU map. It returns io.EOF at the end, and
// the errors of ReplayedTable.
func (d *Dump) Next() (at time.Time, op string, entries []Entry[string, string], err error) {
	for first := true; ; first = false {
		payload, err := d.in.next()
		if err == io.EOF && !first {
			err = d.in.cut()
		}
		if err != nil {
			return time.Time{}, "", nil, err
		}
		q := parser{b: payload[1:]}
		at, n, width := q.varint(), q.uvarint(), uint64(1)
		if d.header.Value.Slice {
			width = q.uvarint()
		}
		k, v := uint64(d.header.Key.Size), uint64(d.header.Value.Size)*min(width, 1<<20)
		if q.bad || n > uint64(len(q.b)) || v > maxChunk || n*(k+v) != uint64(len(q.b)) {
			return time.Time{}, "", nil, d.in.corrupt(errBadChunk.Error())
		}
		keys, values := q.bytes(n*k), q.b
		for range n {
			entries = append(entries, Entry[string, string]{
				Key:   d.header.Key.text(keys[:k], d.header.Order),
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

// values is one value, or one for each CPU.
func (d *Dump) values(b []byte) string {
	l := &d.header.Value
	if !l.Slice || l.Size == 0 {
		return l.text(b, d.header.Order)
	}
	var parts []string
	for ; len(b) >= l.Size; b = b[l.Size:] {
		parts = append(parts, l.text(b[:l.Size], d.header.Order))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// text prints the fields of one key or value.
func (l *layout) text(b []byte, order string) string {
	if l.isUntyped() {
		return fmt.Sprintf("%x", b)
	}
	var out []string
	for i := range l.Fields {
		f := &l.Fields[i]
		s := f.text(b[f.Offset:f.Offset+f.span()], order)
		if f.Name != "" {
			s = f.Name + "=" + s
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func (f *field) text(b []byte, order string) string {
	if f.Size == 1 && f.Count > 0 {
		text, _, _ := strings.Cut(string(b), "\x00")
		return strconv.Quote(text)
	}
	var out []string
	for ; len(b) >= f.Size; b = b[f.Size:] {
		out = append(out, f.scalar(b[:f.Size], order))
	}
	if f.Count > 0 {
		return "[" + strings.Join(out, " ") + "]"
	}
	return out[0]
}

func (f *field) scalar(b []byte, order string) string {
	u := uint64(0)
	for i := range b {
		c := b[i]
		if order != "big" {
			c = b[len(b)-1-i]
		}
		u = u<<8 | uint64(c)
	}
	shift := 64 - 8*f.Size
	switch {
	case f.Kind == "i":
		return strconv.FormatInt(int64(u<<shift)>>shift, 10)
	case f.Kind == "b":
		return strconv.FormatBool(u != 0)
	case f.Kind == "f" && f.Size == 4:
		return strconv.FormatFloat(float64(math.Float32frombits(uint32(u))), 'g', -1, 32)
	case f.Kind == "f":
		return strconv.FormatFloat(math.Float64frombits(u), 'g', -1, 64)
	}
	return strconv.FormatUint(u, 10)
}
