package bpf

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/eval"
)

// Value is a value whose type is known at run time only, as a front end has it: a key,
// what a map holds, or an event, whose Raw is the record's bytes.
type Value struct {
	Type ir.Type
	// Raw is the value as the program has it: Type.Size bytes, in little-endian order.
	Raw string
}

// Int is a number or an address, extended from its width as its type says; of an
// unsigned 64-bit number it has the bits. It is 0 of what is no number.
func (v Value) Int() int64 {
	if !v.Type.Scalar() || len(v.Raw) < v.Type.Size {
		return 0
	}
	var w [8]byte
	copy(w[:], v.Raw[:v.Type.Size])
	return int64(eval.Norm(v.Type, binary.LittleEndian.Uint64(w[:])))
}

// Text is text up to its end; of bytes it is what stands before the first NUL.
func (v Value) Text() string {
	text, _, _ := strings.Cut(v.Raw, "\x00")
	return text
}

// Elem is an element of a tuple, the zero Value if it has none of that number.
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

// PCs are the program counters of a stack, innermost first.
func (v Value) PCs() []uint64 {
	b := []byte(v.Raw)
	pcs := make([]uint64, eval.Frames(b))
	for i := range pcs {
		pcs[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return pcs
}

// String is the value as a person reads it: numbers in base 10 or, of addresses, 16;
// text as it is, bytes in base 16, (a, b) of tuples, and the addresses of a stack. It
// is not escaped: text may be anybody's.
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

// isOpaque says whether keys are read as bytes.
func isOpaque[K comparable]() bool {
	_, ok := any(*new(K)).(string)
	return ok
}

// OpenTable is a map by the types that its declaration has: the table for who learns at
// run time what a program's maps are. Live or recorded, it gives what the table of the
// same kind gives that has Go types. Of a map without keys, the key is the zero Value.
//
// The values are, by the map's aggregation:
//
//	none        a Value; of a map that has one by CPU, a []Value
//	count       uint64
//	sum, min, max
//	            int64, or uint64 if the map is not Signed
//	avg, stats  Stat
//	hist, lhist []Bucket
//	tseries     []Point
//
// Buffers are streams (OpenStream), whose records are events of type m.Value; the
// kernel lists no storage (LookupStorage).
func OpenTable(h Reader, m *ir.Map) (mapx.Table[Value, any], error) {
	switch m.Agg {
	case ir.AggNone:
		return plainTable(h, m)
	case ir.AggCount:
		t, err := CountTable[string](h, m)
		return asValues(m, t, err, func(n uint64) any { return n })
	case ir.AggSum, ir.AggMin, ir.AggMax:
		t, err := NumberTable[string](h, m)
		return asValues(m, t, err, func(n int64) any {
			if m.Signed {
				return n
			}
			return uint64(n)
		})
	case ir.AggAvg, ir.AggStats:
		t, err := StatTable[string](h, m)
		return asValues(m, t, err, func(s Stat) any { return s })
	case ir.AggHist, ir.AggLinear:
		t, err := HistTable[string](h, m)
		return asValues(m, t, err, func(b []Bucket) any { return b })
	case ir.AggSeries:
		t, err := SeriesTable[string](h, m)
		return asValues(m, t, err, func(p []Point) any { return p })
	}
	return nil, fmt.Errorf("map %s: no such aggregation: %d", m.Name, m.Agg)
}

// plainTable is OpenTable for a map that aggregates nothing.
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

// asValues gives a table's keys the types that the map declares.
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
