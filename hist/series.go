package hist

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Reduction is the way in which a Series reduces the values of one interval to one.
type Reduction uint8

// The reductions of bpftrace's tseries.
const (
	Last  Reduction = iota // the newest value
	Avg                    // their mean, cut off to an integer
	Max                    // the largest
	Min                    // the smallest
	Sum                    // their sum, which wraps
	Count                  // how many there were
)

// Series keeps the newest intervals of values over time, as bpftrace's
// tseries(n, interval, num_intervals[, avg|max|min|sum]) does. A Series is used
// by one goroutine at a time.
type Series struct {
	// Unsigned has the bits of values taken as those of unsigned numbers. Set it before the first value.
	Unsigned bool

	interval time.Duration
	origin   int64 // when an interval begins, in nanoseconds since 1970
	reduce   Reduction
	cells    []cell // a ring, by epoch modulo its length
	newest   int64
}

// cell is one interval. An epoch is the number of intervals since the origin.
type cell struct {
	epoch int64
	value int64
	n     int64
}

// maxIntervals bounds a Series.
const maxIntervals = 1 << 20

// NewSeries returns a series of the newest n intervals.
func NewSeries(interval time.Duration, n int, reduce Reduction) (*Series, error) {
	if interval <= 0 || n <= 0 || n > maxIntervals || reduce > Count {
		return nil, fmt.Errorf("time series of %d × %v: want 1 to %d intervals longer than 0", n,
			interval, maxIntervals)
	}
	return &Series{interval: interval, reduce: reduce, cells: make([]cell, n), newest: math.MinInt64},
		nil
}

// SeriesOf returns the newest n intervals of points that were collected elsewhere, such as in the
// kernel. The points are at the starts of their intervals, whose values are not reduced further. The
// last interval is that of the latest point, also if that is not OK, and has no value.
func SeriesOf(interval time.Duration, n int, points []Point) (*Series, error) {
	s, err := NewSeries(interval, n, Last)
	if err != nil || len(points) == 0 {
		return s, err
	}
	s.origin = points[0].Start.UnixNano()
	for _, p := range points {
		if p.OK {
			s.Add(p.Start, p.Value)
		} else {
			s.newest = max(s.newest, s.epoch(p.Start))
		}
	}
	return s, nil
}

// Add adds a value. It drops a value that is older than all kept intervals, and returns
// false.
func (s *Series) Add(t time.Time, v int64) bool {
	epoch := s.epoch(t)
	if s.newest != math.MinInt64 && epoch <= s.newest-int64(len(s.cells)) {
		return false
	}
	s.newest = max(s.newest, epoch)
	c := &s.cells[((epoch%int64(len(s.cells)))+int64(len(s.cells)))%int64(len(s.cells))]
	if c.epoch != epoch || c.n == 0 {
		*c = cell{epoch: epoch}
	}
	s.put(c, v)
	return true
}

// epoch returns the interval of a time.
func (s *Series) epoch(t time.Time) int64 {
	return floorDiv(t.UnixNano()-s.origin, int64(s.interval))
}

func (s *Series) put(c *cell, v int64) {
	first := c.n == 0
	c.n++
	switch s.reduce {
	case Avg, Sum:
		c.value += v
	case Max:
		if first || s.less(c.value, v) {
			c.value = v
		}
	case Min:
		if first || s.less(v, c.value) {
			c.value = v
		}
	case Count:
		c.value = c.n
	default:
		c.value = v
	}
}

// less compares values.
func (s *Series) less(a, b int64) bool {
	if s.Unsigned {
		return uint64(a) < uint64(b)
	}
	return a < b
}

// mean returns the mean of n values with a sum.
func (s *Series) mean(sum, n int64) int64 {
	if s.Unsigned {
		return int64(uint64(sum) / uint64(n))
	}
	return sum / n
}

// number appends a value as text.
func (s *Series) number(b []byte, v int64) []byte {
	if s.Unsigned {
		return strconv.AppendUint(b, uint64(v), 10)
	}
	return strconv.AppendInt(b, v, 10)
}

// limits returns the least and the greatest value, with room on both sides, where there are such numbers, if they
// are the same.
func (s *Series) limits(points []Point) (lo, hi int64) {
	least, most := int64(math.MinInt64), int64(math.MaxInt64)
	if s.Unsigned {
		least, most = 0, -1
	}
	lo, hi = most, least
	for _, p := range points {
		if p.OK && s.less(p.Value, lo) {
			lo = p.Value
		}
		if p.OK && s.less(hi, p.Value) {
			hi = p.Value
		}
	}
	if lo != hi {
		return lo, hi
	}
	if lo != least {
		lo--
	}
	if hi != most {
		hi++
	}
	return lo, hi
}

// Point is an interval of a Series.
type Point struct {
	Start time.Time
	Value int64
	// OK is false for an interval without values.
	OK bool
}

// Points returns the intervals from the first that has a value to the newest, including empty
// ones.
func (s *Series) Points() []Point {
	if s.newest == math.MinInt64 {
		return nil
	}
	var out []Point
	n := int64(len(s.cells))
	for epoch := s.newest - n + 1; epoch <= s.newest; epoch++ {
		c := &s.cells[(epoch%n+n)%n]
		ok := c.n > 0 && c.epoch == epoch
		if !ok && len(out) == 0 {
			continue
		}
		p := Point{Start: time.Unix(0, s.origin+epoch*int64(s.interval)), OK: ok}
		if ok {
			p.Value = c.value
			if s.reduce == Avg {
				p.Value = s.mean(c.value, c.n)
			}
		}
		out = append(out, p)
	}
	return out
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

const plotWidth = 53

// Text draws the series as bpftrace 0.26 does, with times in zone (nil means local time).
func (s *Series) Text(zone *time.Location) string {
	points := s.Points()
	if len(points) == 0 {
		return "<no data>"
	}
	lo, hi := s.limits(points)
	unit, digits := timeUnit(s.interval, len(points))
	heading := "hh:mm:ss"
	width := len(heading)
	if digits > 0 {
		heading += "." + unit
		width += 1 + digits
	}
	var b strings.Builder
	scale := fmt.Sprintf("%-21s%*s\n", s.number(nil, lo), plotWidth-21, s.number(nil, hi))
	fmt.Fprintf(&b, "%*s%s", width+1, "", scale)
	fmt.Fprintf(&b, "%s%s|%s|\n", heading, strings.Repeat(" ", width+1-bytesWidth(heading)),
		strings.Repeat("_", plotWidth-2))
	zero := 0
	if !s.Unsigned && lo < 0 && hi > 0 {
		zero = int(float32(plotWidth) * float32(-lo) / float32(uint64(hi)-uint64(lo)))
	}
	for _, p := range points {
		b.WriteString(s.pointLine(p, lo, hi, zero, digits, zone))
	}
	fmt.Fprintf(&b, "%*s v%sv\n", width, "", strings.Repeat("_", plotWidth-2))
	fmt.Fprintf(&b, "%*s %s", width, "", scale)
	return b.String()
}

// bytesWidth returns the width that bpftrace pads to: it counts bytes, and "μ" has two.
func bytesWidth(s string) int { return len(s) }

func (s *Series) pointLine(p Point, lo, hi int64, zero, digits int, zone *time.Location) string {
	line := []byte("|" + strings.Repeat(" ", plotWidth-2) + "|")
	if zero > 0 {
		line[zero] = '.'
	}
	value := "-"
	if p.OK {
		// In 32-bit floating point, as bpftrace computes it.
		at := int(
			float32(plotWidth-1) * float32(uint64(p.Value)-uint64(lo)) / float32(uint64(hi)-uint64(lo)))
		line[max(0, min(plotWidth-1, at))] = '*'
		value = string(s.number(nil, p.Value))
	}
	t := p.Start.Local()
	if zone != nil {
		t = p.Start.In(zone)
	}
	stamp := t.Format("15:04:05")
	if digits > 0 {
		stamp += fmt.Sprintf(".%0*d", digits, t.Nanosecond()/int(math.Pow10(9-digits)))
	}
	return stamp + " " + string(line) + " " + value + "\n"
}

// timeUnit returns the unit of the interval, which is not known from one point.
func timeUnit(interval time.Duration, points int) (unit string, digits int) {
	switch {
	case points == 1:
		return "ns", 9
	case interval >= time.Second:
		return "s", 0
	case interval >= time.Millisecond:
		return "ms", 3
	case interval >= time.Microsecond:
		return "μs", 6
	}
	return "ns", 9
}

// MarshalJSON returns the series as bpftrace prints it with -f json: an array of objects
// with interval_start, the local time with nanoseconds, and value; intervals
// without values are left out.
func (s *Series) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for _, p := range s.Points() {
		if !p.OK {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, `{"interval_start":"`...)
		b = p.Start.AppendFormat(b, "2006-01-02 15:04:05.000000000")
		b = append(b, `","value":`...)
		b = append(s.number(b, p.Value), '}')
	}
	return append(b, ']'), nil
}
