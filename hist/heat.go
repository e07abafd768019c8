package hist

import (
	"fmt"
	"math"
	"time"
)

// maxColumns bounds a Heat.
const maxColumns = 1 << 16

// Heat counts values over time: a column for each interval, with a histogram in it. Drawn,
// it is the latency heat map: time to the right, value upwards, count as colour. A Heat is
// used by one goroutine at a time.
type Heat struct {
	interval time.Duration
	offset   bool // rows are the place within the second
	empty    Distribution
	first    int64 // epoch of columns[0]
	columns  []Distribution
}

// NewHeat returns an empty heat map with columns of width interval, and rows of the same
// buckets as like, a *Log2 or *Linear, whose counts don't matter.
func NewHeat(interval time.Duration, like Distribution) (*Heat, error) {
	if interval <= 0 {
		return nil, fmt.Errorf("heat map: columns of %v: want longer than 0", interval)
	}
	h := &Heat{interval: interval}
	switch d := like.(type) {
	case *Log2:
		h.empty = &Log2{k: d.k}
	case *Linear:
		c := d.Clone()
		c.Reset()
		h.empty = c
	default:
		return nil, fmt.Errorf("heat map: no rows like %T: want a *Log2 or *Linear", like)
	}
	return h, nil
}

// NewOffsetHeat returns an empty sub-second offset heat map, as FlameScope draws
// it: a column for each second, the rows divide it into equal parts. 50 rows are
// usual; 1 to 1000 are possible. AddTime counts an event.
func NewOffsetHeat(rows int) (*Heat, error) {
	if rows < 1 || rows > 1000 {
		return nil, fmt.Errorf("heat map: %d rows of a second: want 1 to 1000", rows)
	}
	step := (int64(time.Second) + int64(rows) - 1) / int64(rows)
	like, err := NewLinear(0, int64(time.Second), step)
	if err != nil {
		return nil, err
	}
	return &Heat{interval: time.Second, offset: true, empty: like}, nil
}

// Add counts a value at a time. A heat map has at most 65,536 columns: Add does not count a
// value that is further away from the others, and returns false.
func (h *Heat) Add(t time.Time, v int64) bool { return h.AddN(t, v, 1) }

// AddTime counts an event of an offset heat map: its second selects the column, its offset
// within the second the row.
func (h *Heat) AddTime(t time.Time) bool { return h.AddN(t, int64(t.Nanosecond()), 1) }

// AddN counts a value n times.
func (h *Heat) AddN(t time.Time, v int64, n uint64) bool {
	column := h.column(t)
	switch d := column.(type) {
	case *Log2:
		d.AddN(v, n)
	case *Linear:
		d.AddN(v, n)
	}
	return column != nil
}

// AddDistribution adds a histogram, which is for example read once in an interval, to the
// column of a time. Its buckets must be those of the heat map.
func (h *Heat) AddDistribution(t time.Time, d Distribution) error {
	var err error
	switch column := h.column(t).(type) {
	case nil:
		err = fmt.Errorf("more than %d columns", maxColumns)
	case *Log2:
		if o, ok := d.(*Log2); ok {
			return column.Merge(o)
		}
		err = ErrMismatch
	case *Linear:
		if o, ok := d.(*Linear); ok {
			return column.Merge(o)
		}
		err = ErrMismatch
	}
	return fmt.Errorf("heat map: %w", err)
}

// column returns the column of a time, nil if it is too far away.
func (h *Heat) column(t time.Time) Distribution {
	epoch := floorDiv(t.UnixNano(), int64(h.interval))
	switch n := int64(len(h.columns)); {
	case n == 0:
		h.first = epoch
		h.columns = append(h.columns, nil)
	case epoch < h.first:
		if h.first-epoch+n > maxColumns {
			return nil
		}
		h.columns = append(make([]Distribution, h.first-epoch), h.columns...)
		h.first = epoch
	case epoch >= h.first+n:
		if epoch-h.first+1 > maxColumns {
			return nil
		}
		h.columns = append(h.columns, make([]Distribution, epoch-h.first+1-n)...)
	}
	at := epoch - h.first
	if h.columns[at] == nil {
		h.columns[at] = h.newColumn()
	}
	return h.columns[at]
}

func (h *Heat) newColumn() Distribution {
	if d, ok := h.empty.(*Log2); ok {
		return &Log2{k: d.k}
	}
	return h.empty.(*Linear).Clone()
}

// Column is a column of a heat map.
type Column struct {
	// Start is the start of its interval.
	Start time.Time
	// Counts are by row, lowest first; nil for an interval without values.
	Counts []uint64
}

// Grid is a heat map as plain data: every value is in one cell.
type Grid struct {
	// Interval is the width of a column.
	Interval time.Duration
	// Offset is set if the rows are offsets within the second.
	Offset bool
	// Rows are the buckets, lowest first, without counts: from the lowest to the highest that
	// has a value, all of them for an offset heat map.
	Rows    []Bucket
	Columns []Column
	// Max is the largest count of a cell, Total the number of values.
	Max, Total uint64
}

// Grid returns the cells, from the first to the last column that has values.
func (h *Heat) Grid() Grid {
	g := Grid{Interval: h.interval, Offset: h.offset}
	first, last := math.MaxInt, -1
	for _, d := range h.columns {
		if f, l := rowSpan(d); f >= 0 {
			first, last = min(first, f), max(last, l)
		}
	}
	if last < 0 {
		return g
	}
	if h.offset {
		first = 1
		last = max(last, len(h.empty.(*Linear).counts)-1)
		if full := h.empty.(*Linear); full.min+int64(last-1)*full.step >= full.max {
			last-- // nothing is a whole second off
		}
	}
	for i := first; i <= last; i++ {
		lo, hi := h.rowBounds(i)
		g.Rows = append(g.Rows, Bucket{Lo: lo, Hi: hi})
	}
	for at, d := range h.columns {
		c := Column{Start: time.Unix(0, (h.first+int64(at))*int64(h.interval))}
		if d != nil {
			c.Counts = make([]uint64, last-first+1)
			for i := range c.Counts {
				n := bucketCount(d, first+i)
				c.Counts[i] = n
				g.Max = max(g.Max, n)
				g.Total += n
			}
		}
		g.Columns = append(g.Columns, c)
	}
	return g
}

func rowSpan(d Distribution) (first, last int) {
	switch d := d.(type) {
	case *Log2:
		return span(d.counts)
	case *Linear:
		return span(d.counts)
	}
	return -1, -1
}

func bucketCount(d Distribution, i int) uint64 {
	if l, ok := d.(*Log2); ok {
		return l.BucketCount(i)
	}
	return d.(*Linear).BucketCount(i)
}

func (h *Heat) rowBounds(i int) (lo, hi int64) {
	if d, ok := h.empty.(*Log2); ok {
		return Log2Bounds(i, int(d.k))
	}
	return h.empty.(*Linear).bounds(i)
}
