package hist

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// TextOptions are the options of Text; the zero value is bpftrace's layout.
type TextOptions struct {
	// Width is that of the bars in columns; 0 is 52.
	Width int
	// Unicode draws bars with eighths of blocks instead of '@', eight times as
	// fine.
	Unicode bool
	// Div divides the counts of a Log2, as bpftrace's print(@x, top, div) does; 0
	// is 1. It has no effect on a Linear, as there.
	Div uint64
	// Max is the count that fills a bar; 0 means the largest of the histogram. The same Max
	// draws several histograms to one scale.
	Max uint64
}

// row is one line of text: a label, or both ends of a bucket, and a count.
type row struct {
	label string
	count uint64
}

// String returns the rows that Print writes.
func (h *Log2) String() string { return drawRows(h.rows(nil), nil) }

// String returns the rows that Print writes.
func (h *Linear) String() string { return drawRows(h.rows(nil), nil) }

// Print writes the histogram under its name, as bpftrace 0.26 prints a map: "@name:", a row
// for each bucket from the first to the last that is not empty, and an empty line.
// (bpftrace 0.17 has a space behind the colon.) Without values it writes only the name and
// the empty line. opts may be nil.
func Print(w io.Writer, name string, d Distribution, opts *TextOptions) error {
	text, err := textOf(d, opts)
	if err == nil {
		_, err = fmt.Fprintf(w, "%s:\n%s\n", name, text)
	}
	return err
}

func textOf(d Distribution, opts *TextOptions) (string, error) {
	switch h := d.(type) {
	case *Log2:
		return drawRows(h.rows(opts), opts), nil
	case *Linear:
		return drawRows(h.rows(opts), opts), nil
	}
	return "", fmt.Errorf("print: %T has no text form", d)
}

// edge is the label of a bucket's edge. A plain number is comparable by its value; a suffixed
// one never counts as the neighbour of another.
type edge struct {
	text    string
	value   int64
	numeric bool
}

// log2Edge returns the label between buckets index and index+1: a plain number if buckets have
// one value, else with the suffix of the power of 2^10 that the bucket's width has reached.
func log2Edge(index, k int) edge {
	if index <= 2<<k {
		return edge{text: strconv.Itoa(index), value: int64(index), numeric: true}
	}
	power := index>>k - 1
	mantissa := uint64(1<<k + index&(1<<k-1))
	text := strconv.FormatUint(mantissa<<(power%10), 10)
	if decade := power / 10; decade > 0 {
		text += "KMGTPE"[decade-1 : decade]
	}
	return edge{text: text, value: int64(mantissa << power)}
}

func (h *Log2) rows(opts *TextOptions) []row {
	div := uint64(1)
	if opts != nil && opts.Div > 0 {
		div = opts.Div
	}
	k := int(h.k)
	first, last := span(h.counts)
	if first < 0 {
		return nil
	}
	rows := make([]row, 0, last-first+1)
	for i := first; i <= last; i++ {
		var label string
		switch upper := log2Edge(i, k); {
		case i == 0:
			label = "(..., 0)"
		default:
			lower := log2Edge(i-1, k)
			label = rangeLabel(lower, upper)
		}
		rows = append(rows, row{label: label, count: h.counts[i] / div})
	}
	return rows
}

func rangeLabel(lower, upper edge) string {
	if lower.numeric && upper.numeric && lower.value+1 == upper.value {
		return "[" + lower.text + "]"
	}
	return "[" + lower.text + ", " + upper.text + ")"
}

// linearEdge returns the label of a value, with K and M only if all edges are multiples of
// 1024.
func linearEdge(v, step int64) edge {
	text := strconv.FormatInt(v, 10)
	if step%1024 != 0 {
		return edge{text: text, value: v, numeric: true}
	}
	switch {
	case v == 0:
	case v%(1<<20) == 0:
		text = strconv.FormatInt(v>>20, 10) + "M"
	case v%(1<<10) == 0:
		text = strconv.FormatInt(v>>10, 10) + "K"
	}
	return edge{text: text, value: v}
}

func (h *Linear) rows(*TextOptions) []row {
	first, last := span(h.counts)
	if first < 0 {
		return nil
	}
	rows := make([]row, 0, last-first+1)
	for i := first; i <= last; i++ {
		lo, hi := h.bounds(i)
		label := rangeLabel(linearEdge(lo, h.step), linearEdge(hi, h.step))
		switch {
		case i == 0:
			label = "(..., " + linearEdge(hi, h.step).text + ")"
		case i == len(h.counts)-1:
			label = "[" + linearEdge(lo, h.step).text + ", ...)"
		}
		rows = append(rows, row{label: label, count: h.counts[i]})
	}
	return rows
}

func drawRows(rows []row, opts *TextOptions) string {
	o := TextOptions{Width: 52}
	if opts != nil {
		o = *opts
		if o.Width <= 0 {
			o.Width = 52
		}
	}
	if o.Max == 0 {
		for _, r := range rows {
			o.Max = max(o.Max, r.count)
		}
	}
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%-16s%8d |%s|\n", r.label, r.count, bar(r.count, &o))
	}
	return b.String()
}

// bar returns a bar of Width columns. The share is computed as bpftrace computes it, in 32-bit
// floating point and cut off, so that the bars are the same.
func bar(count uint64, o *TextOptions) string {
	if o.Max == 0 {
		return strings.Repeat(" ", o.Width)
	}
	count = min(count, o.Max)
	if o.Unicode {
		eighths := int(float64(count) / float64(o.Max) * float64(8*o.Width))
		s := strings.Repeat("█", eighths/8)
		if part := eighths % 8; part > 0 {
			s += string(rune('█' + 8 - part)) // ▏ is one eighth, ▉ seven
		}
		return s + strings.Repeat(" ", o.Width-utf8.RuneCountInString(s))
	}
	n := int(float32(count) / float32(o.Max) * float32(o.Width))
	return strings.Repeat("@", n) + strings.Repeat(" ", o.Width-n)
}

// largest returns the largest count of a histogram.
func largest(d Distribution) uint64 {
	most := uint64(0)
	for _, b := range d.Buckets() {
		most = max(most, b.Count)
	}
	return most
}
