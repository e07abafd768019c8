package hist

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// AppendJSON appends the buckets as bpftrace 0.26 prints them with -f json: an array of objects
// with closed intervals, without "min" if there is no lower end, without "max" if there is no
// upper one. Numbers that a floating-point number can't hold exactly are strings, as there. div
// divides the counts of a Log2; 0 is 1. (bpftrace 0.17 has a space between the objects.)
func AppendJSON(dst []byte, d Distribution, div uint64) []byte {
	if _, ok := d.(*Log2); !ok || div == 0 {
		div = 1
	}
	dst = append(dst, '[')
	for i, b := range d.Buckets() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		if b.Lo != math.MinInt64 {
			dst = append(appendInt(append(dst, `"min": `...), b.Lo), ", "...)
		}
		switch _, isLog2 := d.(*Log2); {
		case b.Hi != math.MaxInt64:
			dst = append(appendInt(append(dst, `"max": `...), b.Hi-1), ", "...)
		case isLog2: // the last power of two has an end
			dst = append(appendInt(append(dst, `"max": `...), b.Hi), ", "...)
		}
		dst = append(dst, `"count": `...)
		dst = append(strconv.AppendUint(dst, b.Count/div, 10), '}')
	}
	return append(dst, ']')
}

// appendInt appends v, quoted if a float64 can't hold it.
func appendInt(dst []byte, v int64) []byte {
	f := float64(v)
	if f >= 1<<63 || int64(f) != v {
		return append(strconv.AppendInt(append(dst, '"'), v, 10), '"')
	}
	return strconv.AppendInt(dst, v, 10)
}

// PrintJSON writes one line as bpftrace -f json does for a map of that name.
func PrintJSON(w io.Writer, name string, d Distribution) error {
	quoted, err := json.Marshal(name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `{"type": "hist", "data": {%s: %s}}`+"\n", quoted, AppendJSON(nil, d, 0))
	return err
}

// jsonForm is the form of MarshalJSON: the parameters, and the buckets that are
// not empty by index.
type jsonForm struct {
	Type   string       `json:"type"`
	K      int          `json:"k,omitempty"`
	Min    int64        `json:"min,omitempty"`
	Max    int64        `json:"max,omitempty"`
	Step   int64        `json:"step,omitempty"`
	Counts [][2]uint64  `json:"counts"` // index, count
	Exact  *jsonMoments `json:"exact,omitempty"`
}

// jsonMoments is the exact part of a tracked histogram. The sum has 128 bits.
type jsonMoments struct {
	SumHi uint64 `json:"sum_hi"`
	SumLo uint64 `json:"sum_lo"`
	Min   int64  `json:"min"`
	Max   int64  `json:"max"`
}

func sparse(counts []uint64) [][2]uint64 {
	out := [][2]uint64{}
	for i, n := range counts {
		if n > 0 {
			out = append(out, [2]uint64{uint64(i), n})
		}
	}
	return out
}

func (m *moments) json(exact bool) *jsonMoments {
	if !exact {
		return nil
	}
	return &jsonMoments{SumHi: m.sumHi, SumLo: m.sumLo, Min: m.min, Max: m.max}
}

// fill copies the counts, of a histogram with size buckets, and the moments.
func (f *jsonForm) fill(c *counted, size int, add func(index int, n uint64)) error {
	for _, pair := range f.Counts {
		if pair[0] >= uint64(size) {
			return fmt.Errorf("%s histogram: bucket %d of %d", f.Type, pair[0], size)
		}
		add(int(pair[0]), pair[1])
	}
	if x := f.Exact; x != nil {
		c.track = true
		c.m = moments{sumHi: x.SumHi, sumLo: x.SumLo, min: x.Min, max: x.Max, n: c.Count()}
	}
	return nil
}

// MarshalJSON returns the histogram with its parameters, from which UnmarshalJSON makes an
// equal one.
func (h *Log2) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonForm{
		Type: "log2", K: int(h.k), Counts: sparse(h.counts), Exact: h.m.json(h.exact()),
	})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (h *Log2) UnmarshalJSON(b []byte) error {
	var f jsonForm
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	if f.Type != "log2" || f.K < 0 || f.K > MaxK {
		return fmt.Errorf("histogram %q with k %d: not a log2 histogram", f.Type, f.K)
	}
	n := Log2{k: uint8(f.K)}
	if err := f.fill(&n.counted, Log2Size(f.K), n.AddBucket); err != nil {
		return err
	}
	*h = n
	return nil
}

// MarshalJSON returns the histogram with its parameters, from which UnmarshalJSON makes an
// equal one.
func (h *Linear) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonForm{
		Type: "linear", Min: h.min, Max: h.max, Step: h.step, Counts: sparse(h.counts),
		Exact: h.m.json(h.exact()),
	})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (h *Linear) UnmarshalJSON(b []byte) error {
	var f jsonForm
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	if f.Type != "linear" {
		return fmt.Errorf("histogram %q: not a linear histogram", f.Type)
	}
	n, err := NewLinear(f.Min, f.Max, f.Step)
	if err != nil {
		return err
	}
	if err := f.fill(&n.counted, len(n.counts), n.AddBucket); err != nil {
		return err
	}
	*h = *n
	return nil
}

// WriteCSV writes a line for each bucket, with a heading: lo, hi (the first value above) and
// count. If a bucket has no such end the field is empty.
func WriteCSV(w io.Writer, d Distribution) error {
	b := []byte("lo,hi,count\n")
	for _, bucket := range d.Buckets() {
		if bucket.Lo != math.MinInt64 {
			b = strconv.AppendInt(b, bucket.Lo, 10)
		}
		b = append(b, ',')
		if bucket.Hi != math.MaxInt64 {
			b = strconv.AppendInt(b, bucket.Hi, 10)
		}
		b = append(strconv.AppendUint(append(b, ','), bucket.Count, 10), '\n')
	}
	_, err := w.Write(b)
	return err
}
