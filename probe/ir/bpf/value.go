package bpf

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/eval"
)

// Value is a value whose type is known only at run time, as in a front end: a key, the value
// of a map, or an event. Raw of an event is the bytes of the record.
type Value struct {
	Type ir.Type
	// Raw is the value as the program stores it: Type.Size bytes, in little-endian order.
	Raw string
}

// Int returns a number or an address, sign- or zero-extended from its width by its type. For
// an unsigned 64-bit number it has the same bits. It returns 0 if the value is not a number.
func (v Value) Int() int64 {
	if !v.Type.Scalar() || len(v.Raw) < v.Type.Size {
		return 0
	}
	var w [8]byte
	copy(w[:], v.Raw[:v.Type.Size])
	return int64(eval.Norm(v.Type, binary.LittleEndian.Uint64(w[:])))
}

// Text returns text up to its end, or bytes up to the first NUL.
func (v Value) Text() string {
	text, _, _ := strings.Cut(v.Raw, "\x00")
	return text
}

// Elem returns an element of a tuple, or the zero Value if there is no such element.
func (v Value) Elem(i int) Value {
	if v.Type.Kind != ir.KindTuple || i < 0 || i >= len(v.Type.Fields) {
		return Value{}
	}
	f := v.Type.Fields[i]
	if len(v.Raw) < f.Offset+f.Type.Size {
		return Value{}
	}
	return Value{f.Type, v.Raw[f.Offset:][:f.Type.Size]}
}

// PCs returns the program counters of a stack, innermost first.
func (v Value) PCs() []uint64 {
	b := []byte(v.Raw)
	pcs := make([]uint64, eval.Frames(b))
	for i := range pcs {
		pcs[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return pcs
}

// String formats the value for people: numbers in base 10, addresses in base 16, text as it
// is, bytes in base 16, tuples as (a, b), and stacks as addresses. It does not escape text,
// which may come from an untrusted source.
func (v Value) String() string {
	switch v.Type.Kind {
	case ir.KindBool:
		return strconv.FormatBool(v.Int() != 0)
	case ir.KindInt:
		if !v.Type.Signed {
			return strconv.FormatUint(uint64(v.Int()), 10)
		}
		return strconv.FormatInt(v.Int(), 10)
	case ir.KindPtr:
		return fmt.Sprintf("%#x", uint64(v.Int()))
	case ir.KindString:
		return v.Text()
	case ir.KindTuple:
		elems := make([]string, len(v.Type.Fields))
		for i := range elems {
			elems[i] = v.Elem(i).String()
		}
		return "(" + strings.Join(elems, ", ") + ")"
	}
	if v.Type.Format == ir.FormatKstack || v.Type.Format == ir.FormatUstack {
		return fmt.Sprintf("%#x", v.PCs())
	}
	return fmt.Sprintf("%x", v.Raw)
}

// isOpaque reports whether keys are read as bytes.
func isOpaque[K comparable]() bool {
	_, ok := any(*new(K)).(string)
	return ok
}

// OpenTable opens a map by the types that it declares, for callers that learn a program's
// maps at run time. Live or recorded, it returns the same entries as the table of the same
// kind with Go types. The keys of a map without keys are the zero Value.
//
// The values are, by the map's aggregation:
//
//	none        a Value; []Value for a map with one value per CPU
//	count       uint64
//	sum, min, max
//	            int64, or uint64 if the map is not Signed
//	avg, stats  Stat
//	hist, lhist []hist.Bucket
//	tseries     []Point
//
// Buffers are streams: use OpenStream, whose records are events of type m.Value. The kernel
// does not list storage: use LookupStorage.
func OpenTable(h Reader, m *ir.Map) (mapx.Table[Value, any], error) {
	switch m.Agg {
	case ir.AggNone:
		return plainTable(h, m)
	case ir.AggCount:
		t, err := perCPUBytes(h, m, counted, always)
		return asValues(m, t, err, func(n uint64) any { return n })
	case ir.AggSum, ir.AggMin, ir.AggMax:
		var t mapx.Table[string, int64]
		var err error
		if m.Agg == ir.AggSum {
			t, err = perCPUBytes(h, m, summed, always)
		} else {
			t, err = perCPUBytes(h, m, extreme(m), always)
		}
		return asValues(m, t, err, func(n int64) any {
			if m.Signed {
				return n
			}
			return uint64(n)
		})
	case ir.AggAvg:
		t, err := perCPUBytes(h, m, averaged, avgValue.whole)
		return asValues(m, t, err, func(s Stat) any { return s })
	case ir.AggStats:
		t, err := perCPUBytes(h, m, statistics(m), statsValue.whole)
		return asValues(m, t, err, func(s Stat) any { return s })
	case ir.AggHist, ir.AggLinear:
		t, err := HistTable[string](h, m)
		return asValues(m, t, err, func(b []hist.Bucket) any { return b })
	case ir.AggSeries:
		t, err := SeriesTable[string](h, m)
		return asValues(m, t, err, func(p []Point) any { return p })
	}
	return nil, fmt.Errorf("map %s: no such aggregation: %d", m.Name, m.Agg)
}

// plainTable is OpenTable for a map without an aggregation.
func plainTable(h Reader, m *ir.Map) (mapx.Table[Value, any], error) {
	value := func(s string) any { return Value{m.Value, s} }
	switch m.Kind {
	case ir.MapRing, ir.MapPerf:
		return nil, fmt.Errorf("map %s is a stream: use OpenStream", m.Name)
	case ir.MapTaskStorage, ir.MapCgroupStorage:
		return nil, fmt.Errorf("map %s belongs to what the kernel does not list: use LookupStorage",
			m.Name)
	case ir.MapPerCPUHash, ir.MapPerCPULRU, ir.MapPerCPUArray:
		t, err := openPerCPU[string, string](h, m.Name)
		return asValues(m, t, err, func(cpus []string) any {
			values := make([]Value, len(cpus))
			for i, s := range cpus {
				values[i] = Value{m.Value, s}
			}
			return values
		})
	}
	t, err := HashTable[string, string](h, m)
	return asValues(m, t, err, value)
}

// asValues converts a table's entries to the types that the map declares.
func asValues[V any](m *ir.Map, in mapx.Table[string, V], err error,
	value func(V) any,
) (mapx.Table[Value, any], error) {
	if err != nil {
		return nil, err
	}
	return &table[string, V, Value, any]{
		in,
		each(func(e mapx.Entry[string, V]) (mapx.Entry[Value, any], bool) {
			key := Value{}
			if !m.Keyless() {
				key = Value{m.Key, e.Key}
			}
			return mapx.Entry[Value, any]{Key: key, Value: value(e.Value)}, true
		}),
	}, nil
}
