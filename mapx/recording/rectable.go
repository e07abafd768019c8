package recording

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/internal/layout"
)

// tableHeader is a table's line of JSON.
type tableHeader struct {
	Start time.Time `json:"start"`
	// Order is the byte order of keys and values: "little" or "big".
	Order string        `json:"order"`
	Key   layout.Layout `json:"key"`
	Value layout.Layout `json:"value"`
}

// The first byte of a chunk of a table. A snapshot is one or more chunks; all
// but the last have opMore set.
const (
	opSnapshot     = 0
	opReadAndClear = 1
	opMore         = 2
)

func nativeOrder() string {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return "little"
	}
	return "big"
}

// RecordTable returns a Table that passes on the results of t and records them under the
// name: each Snapshot and ReadAndClear with its time. K must be plain data as for Map. V
// must be too, or a slice of it with the same length in all entries of a snapshot, as
// PerCPU has. To record a table of another kind, record the one that it is made from, and
// reduce the replay in the same way. For strings, t must have a method that returns the
// sizes in bytes: Sizes() (key, value int); see RecordMap, too.
//
// If the table can't be created every call returns that error, and so does Close of the
// recorder. With a nil recorder RecordTable returns t.
func RecordTable[K, V any](rec *Recorder, name string, t mapx.Table[K, V]) mapx.Table[K, V] {
	if rec == nil {
		return t
	}
	r := &recordedTable[K, V]{table: t}
	key, value := 0, 0
	if s, ok := t.(interface{ Sizes() (key, value int) }); ok {
		key, value = s.Sizes()
	}
	if err := r.create(rec, name, reflect.TypeFor[K](), reflect.TypeFor[V](), key, value); err != nil {
		return failedTable[K, V]{err}
	}
	return r
}

// failedTable is a table that could not be recorded.
type failedTable[K, V any] struct{ err error }

// Snapshot returns why.
func (f failedTable[K, V]) Snapshot() (s mapx.Snapshot[K, V], err error) { return s, f.err }

// ReadAndClear returns why.
func (f failedTable[K, V]) ReadAndClear() (s mapx.Snapshot[K, V], err error) { return s, f.err }

type recordedTable[K, V any] struct {
	table mapx.Table[K, V]
	tableWriter
}

// entriesOf returns the entries as memory.
func entriesOf[K, V any](list []mapx.Entry[K, V]) layout.Entries {
	var e mapx.Entry[K, V]
	return layout.EntriesOf(list, unsafe.Offsetof(e.Value))
}

func (r *Recorder) failed(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fail(err)
}

// Snapshot passes on a snapshot and writes it down.
func (r *recordedTable[K, V]) Snapshot() (mapx.Snapshot[K, V], error) {
	s, err := r.table.Snapshot()
	if err == nil {
		err = r.record(opSnapshot, entriesOf(s.Entries))
	}
	return s, err
}

// ReadAndClear returns the source's result and records it.
func (r *recordedTable[K, V]) ReadAndClear() (mapx.Snapshot[K, V], error) {
	s, err := r.table.ReadAndClear()
	if err == nil {
		err = r.record(opReadAndClear, entriesOf(s.Entries))
	}
	return s, err
}

// tableWriter is the part of a recordedTable that does not depend on its types.
type tableWriter struct {
	start      time.Time
	file       *os.File
	out        *chunkWriter
	key, value layout.Layout
	payload    []byte
}

func (w *tableWriter) create(rec *Recorder, name string, k, v reflect.Type, keySize, valueSize int) error {
	key, err := layout.OfKey(k)
	if err != nil {
		return rec.failed(fmt.Errorf("record %s: key %w", name, err))
	}
	value, err := layout.OfSlice(v)
	if err != nil {
		return rec.failed(fmt.Errorf("record %s: value %w", name, err))
	}
	if key.Opaque && keySize <= 0 || value.Opaque && valueSize <= 0 {
		return rec.failed(fmt.Errorf("record %s: the table does not say how long its strings are", name))
	}
	w.start = rec.start
	key, value = key.Sized(keySize), value.Sized(valueSize)
	return rec.create(name, ".table", func(f *os.File) (io.Closer, error) {
		w.file = f
		var err error
		w.out, err = newChunkWriter(name, "table", f, rec.enc,
			tableHeader{Start: rec.start, Order: nativeOrder(), Key: *key, Value: *value})
		w.key, w.value = *key, *value
		return w, err
	})
}

// record writes a snapshot down.
func (w *tableWriter) record(op byte, entries layout.Entries) error {
	now := time.Since(w.start)
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	for first := 0; ; {
		// As many as fit in a chunk of about 256 KiB, but one at least.
		width, left := 1, entries.N-first
		if w.value.Slice && left > 0 {
			width = sliceLen(entries.ValueOf(first))
		}
		n := min(left, max(1, flushBytes/(w.key.Size+w.value.Size*width+1)))
		more := byte(0)
		if n < left {
			more = opMore
		}
		p := append(w.payload[:0], op|more)
		p = binary.AppendVarint(p, int64(now))
		p = binary.AppendUvarint(p, uint64(n))
		if w.value.Slice {
			p = binary.AppendUvarint(p, uint64(width))
		}
		head := len(p)
		for i := first; i < first+n; i++ {
			p = appendValues(p, &w.key, entries.Key(i), 1)
		}
		for i := first; i < first+n; i++ {
			at := entries.ValueOf(i)
			if w.value.Slice {
				if sliceLen(at) != width {
					return w.out.fail(fmt.Errorf("values of different length in one snapshot"))
				}
				at = unsafe.Pointer(unsafe.SliceData(*(*[]struct{})(at))) // any slice's header
			}
			p = appendValues(p, &w.value, at, width)
		}
		if len(p)-head != n*(w.key.Size+w.value.Size*width) {
			return w.out.fail(fmt.Errorf("a string is not as long as the table says"))
		}
		w.payload = p
		if err := w.writePayload(); err != nil || more == 0 {
			return err
		}
		first += n
	}
}

func (w *tableWriter) writePayload() error {
	if w.out.closed {
		return os.ErrClosed
	}
	return w.out.write(w.payload)
}

// appendValues appends the bytes of n consecutive values at p.
func appendValues(dst []byte, l *layout.Layout, p unsafe.Pointer, n int) []byte {
	if !l.Opaque {
		return append(dst, unsafe.Slice((*byte)(p), l.Size*n)...)
	}
	for _, s := range unsafe.Slice((*string)(p), n) {
		dst = append(dst, s...)
	}
	return dst
}

// sliceLen returns the length of the slice at p.
func sliceLen(p unsafe.Pointer) int { return len(*(*[]struct{})(p)) }

// Close writes down the rest, and closes the table's file. It returns the first
// error of all writing, and is idempotent; Close of the Recorder does it too.
func (w *tableWriter) Close() error {
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	if w.out.closed {
		return w.out.err
	}
	w.out.closed = true
	if err := w.file.Close(); err != nil {
		return w.out.fail(err)
	}
	return w.out.err
}

// ReplayedTable is a recorded table: its snapshots in the order in which they
// were taken. It is safe for concurrent use.
type ReplayedTable[K, V any] struct{ in tableReader }

// tableReader is the part of a ReplayedTable that does not depend on its types.
type tableReader struct {
	mu     sync.Mutex
	name   string
	header tableHeader
	in     *chunkReader
	pace   *pacer
	swap   bool
	at     time.Duration
	err    error
}

var _ mapx.Table[int32, []int32] = (*ReplayedTable[int32, []int32])(nil)

// ReplayTable returns the recorded table of that name. K and V must have the layout that
// was recorded; the error names the field that differs. A string has the bytes in the order
// of the machine that recorded them. Snapshots come at the speed set by Recording.Pace. The
// recording closes the table.
func ReplayTable[K, V any](rec *Recording, name string) (*ReplayedTable[K, V], error) {
	t := &ReplayedTable[K, V]{}
	if err := t.in.open(rec, name, reflect.TypeFor[K](), reflect.TypeFor[V]()); err != nil {
		return nil, err
	}
	return t, nil
}

// open opens the table of that name for keys and values of types k and v.
func (t *tableReader) open(rec *Recording, name string, k, v reflect.Type) error {
	key, err := layout.OfKey(k)
	if err != nil {
		return fmt.Errorf("replay %s: key %w", name, err)
	}
	value, err := layout.OfSlice(v)
	if err != nil {
		return fmt.Errorf("replay %s: value %w", name, err)
	}
	f, err := rec.openFile(name, ".table")
	if err != nil {
		return err
	}
	t.name, t.pace = name, rec.pacer()
	if t.in, err = newChunkReader(name, "table", f, &t.header); err != nil {
		return err
	}
	for _, l := range []*layout.Layout{&t.header.Key, &t.header.Value} {
		if err := l.Valid(); err != nil {
			return t.in.corrupt(err.Error())
		}
	}
	key, value = key.Sized(t.header.Key.Size), value.Sized(t.header.Value.Size)
	if err := key.SameAs(&t.header.Key); err != nil {
		return fmt.Errorf("replay %s: key: %w", name, err)
	}
	if err := value.SameAs(&t.header.Value); err != nil {
		return fmt.Errorf("replay %s: value: %w", name, err)
	}
	t.header.Key, t.header.Value = *key, *value // checked, unlike the file's
	t.swap = t.header.Order != nativeOrder()
	return nil
}

// Snapshot returns the next recorded snapshot. At the end it returns io.EOF, and where the
// file was cut off an error that wraps io.ErrUnexpectedEOF. If a ReadAndClear is next it
// returns an error.
func (t *ReplayedTable[K, V]) Snapshot() (mapx.Snapshot[K, V], error) { return t.next(opSnapshot) }

// ReadAndClear returns the next recorded ReadAndClear, with the errors of
// Snapshot.
func (t *ReplayedTable[K, V]) ReadAndClear() (mapx.Snapshot[K, V], error) {
	return t.next(opReadAndClear)
}

func (t *ReplayedTable[K, V]) next(op byte) (s mapx.Snapshot[K, V], err error) {
	var parts [][]mapx.Entry[K, V]
	err = t.in.next(op, entriesOf[K, V](nil).Size, func(n int) layout.Entries {
		part := make([]mapx.Entry[K, V], n)
		parts = append(parts, part)
		return entriesOf(part)
	})
	switch {
	case err != nil:
	case len(parts) == 1:
		s.Entries = parts[0]
	default:
		s.Entries = slices.Concat(parts...)
	}
	return s, err
}

// next reads the next snapshot and waits for its time. Its entries, of so many bytes each, go to what
// room returns for those of each chunk.
func (t *tableReader) next(op byte, size uintptr, room func(n int) layout.Entries) error {
	at, err := t.read(op, size, room)
	if err != nil {
		return err
	}
	return t.pace.wait(context.Background(), nil, at)
}

// read decodes the next snapshot, and returns the time at which it was taken.
func (t *tableReader) read(op byte, size uintptr, room func(n int) layout.Entries) (time.Duration, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	held, more := int64(0), false
	for t.err == nil {
		payload, err := t.in.part(held, more)
		if err != nil {
			t.err = err
			break
		}
		if payload[0]&^opMore != op {
			t.err = fmt.Errorf("replay %s: the recording has a %s here, not a %s", t.name,
				opName(payload[0]), opName(op))
			break
		}
		if held, t.err = t.decode(payload, held, size, room); t.err != nil {
			break
		}
		if more = payload[0]&opMore != 0; !more {
			return t.at, nil
		}
	}
	return 0, t.err
}

func opName(op byte) string {
	switch op &^ opMore {
	case opSnapshot:
		return "Snapshot"
	case opReadAndClear:
		return "ReadAndClear"
	}
	return fmt.Sprintf("unknown operation %d", op)
}

// decode puts the entries of one chunk of a snapshot where room has them, and returns the memory that
// those of the snapshot take with them, if held was that of the chunks before.
func (t *tableReader) decode(payload []byte, held int64, size uintptr,
	room func(n int) layout.Entries,
) (int64, error) {
	q := parser{b: payload[1:]}
	when, n, width := q.varint(), q.uvarint(), uint64(1)
	value := &t.header.Value
	if value.Slice {
		width = q.uvarint()
	}
	rest := uint64(len(q.b))
	// Sizes are small and the counts are bounded first, so nothing overflows.
	ok := !q.bad && n <= layout.MaxChunk && width <= 1<<20 &&
		uint64(value.Size)*width <= layout.MaxChunk &&
		n*(uint64(t.header.Key.Size)+uint64(value.Size)*width) == rest
	if !ok {
		return 0, t.in.corrupt(errBadChunk.Error())
	}
	held += int64(n) * t.entryBytes(int64(size), int64(width))
	if err := errors.Join(t.in.hold(held), t.in.spend(0, n)); err != nil {
		return 0, err
	}
	t.at = time.Duration(when)
	keys := q.bytes(n * uint64(t.header.Key.Size))
	values := q.b
	if t.swap {
		t.header.Key.Swap(keys)
		value.Swap(values)
	}
	if value.Slice && !value.Opaque {
		backing := layout.AlignedBytes(len(values)) // not the payload, which is reused
		copy(backing, values)
		values = backing
	}
	per := value.Size * int(width)
	entries := room(int(n))
	for i := range entries.N {
		at := entries.ValueOf(i)
		setValue(entries.Key(i), &t.header.Key, keys[i*t.header.Key.Size:][:t.header.Key.Size])
		b := values[i*per : (i+1)*per]
		switch {
		case value.Slice && value.Opaque:
			list := make([]string, width)
			for j := range list {
				list[j] = string(b[j*value.Size:][:value.Size])
			}
			*(*[]string)(at) = list
		case value.Slice:
			layout.SetSlice(at, unsafe.Pointer(unsafe.SliceData(b)), int(width))
		default:
			setValue(at, value, b)
		}
	}
	return held, nil
}

// entryBytes returns the memory that one entry of that size takes with values for width CPUs, while its
// snapshot is decoded: it is copied once if there are several chunks.
func (t *tableReader) entryBytes(size, width int64) int64 {
	n := 2 * size
	if t.header.Key.Opaque {
		n += stringBytes(t.header.Key.Size)
	}
	switch v := &t.header.Value; {
	case v.Slice && v.Opaque:
		n += width * (int64(unsafe.Sizeof("")) + stringBytes(v.Size))
	case v.Slice:
		n += width * int64(v.Size)
	case v.Opaque:
		n += stringBytes(v.Size)
	}
	return n
}

// stringBytes returns the memory of the bytes of a string: the allocator's classes of sizes are
// at most an eighth larger, and one byte takes none.
func stringBytes(n int) int64 {
	if n <= 1 {
		return 0
	}
	return int64(n+n/8+7) &^ 7
}

// setValue sets the value at p, of that layout, to the one in b.
func setValue(p unsafe.Pointer, l *layout.Layout, b []byte) {
	if l.Opaque {
		*(*string)(p) = string(b)
		return
	}
	copy(unsafe.Slice((*byte)(p), l.Size), b)
}
