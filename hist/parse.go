package hist

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseText reads the rows of a histogram in the form that Text and bpftrace print. It is the
// inverse of Text if the counts were not divided. Lines after the last row are an error; an
// empty text has no buckets.
//
// Rows don't show the kind of their histogram: Log2Of makes a Log2 of them, and AddBuckets adds
// them to an existing histogram.
func ParseText(text string) ([]Bucket, error) {
	var out []Bucket
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if line == "" && text == "" {
			return nil, nil
		}
		b, err := parseRow(line)
		if err == nil && len(out) > 0 && b.Lo < out[len(out)-1].Hi {
			err = errors.New("below the row before it")
		}
		if err != nil {
			return nil, fmt.Errorf("histogram:%d: row %q: %w", n+1, line, err)
		}
		out = append(out, b)
	}
	return out, nil
}

var errRow = errors.New(`not "[lo, hi) count |…|"`)

func parseRow(line string) (b Bucket, err error) {
	label, rest, ok := strings.Cut(line, " ")
	for ok && !strings.HasSuffix(label, ")") && !strings.HasSuffix(label, "]") {
		var more string
		more, rest, ok = strings.Cut(rest, " ")
		label += " " + more
	}
	count, _, bar := strings.Cut(strings.TrimLeft(rest, " "), " |")
	if !ok || !bar || len(label) < 3 {
		return b, errRow
	}
	if b.Count, err = strconv.ParseUint(count, 10, 64); err != nil {
		return b, errRow
	}
	lo, hi, two := strings.Cut(label[1:len(label)-1], ", ")
	end := label[len(label)-1]
	switch {
	case label == "("+lo+", "+hi+")" && lo == "...":
		b.Lo = math.MinInt64
	case label[0] != '[' || two != (end == ')'):
		return b, errRow
	default:
		if b.Lo, err = parseEdge(lo); err != nil {
			return b, err
		}
	}
	switch {
	case !two && b.Lo < math.MaxInt64: // a single value
		b.Hi = b.Lo + 1
	case !two:
		b.Hi = math.MaxInt64
	case hi == "...":
		b.Hi = math.MaxInt64
	default:
		if b.Hi, err = parseEdge(hi); err != nil {
			return b, err
		}
	}
	if b.Hi < b.Lo || b.Hi == b.Lo && b.Hi != math.MaxInt64 {
		return b, errors.New("its end is not above its beginning")
	}
	return b, nil
}

// parseEdge reads a number with one of the suffixes of log2Edge. 8E is the end
// of all values.
func parseEdge(s string) (int64, error) {
	digits := strings.TrimRight(s, "KMGTPE")
	shift := 0
	switch len(s) - len(digits) {
	case 0:
	case 1:
		shift = 10 * (1 + strings.IndexByte("KMGTPE", s[len(s)-1]))
	default:
		return 0, errRow
	}
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, errRow
	}
	switch out := v << shift; {
	case out>>shift == v:
		return out, nil
	case v<<(shift-1) == 1<<62 && v<<(shift-1)>>(shift-1) == v:
		return math.MaxInt64, nil
	}
	return 0, errors.New("an edge has more than 64 bits")
}

// ParseJSON reads the output of AppendJSON and bpftrace -f json: an array of closed
// intervals with their counts. See ParseText for the use of the buckets.
func ParseJSON(data []byte) ([]Bucket, error) {
	var rows []struct {
		Min, Max *json.RawMessage
		Count    uint64
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return nil, fmt.Errorf("histogram: byte %d: want an array of {\"min\": …, \"max\": …, \"count\": …}, got %s", wrong.Offset, wrong.Value)
		}
		return nil, fmt.Errorf("histogram: %w", err)
	}
	var out []Bucket
	for i, r := range rows {
		b := Bucket{Lo: math.MinInt64, Hi: math.MaxInt64, Count: r.Count}
		err := errors.Join(jsonEdge(r.Min, &b.Lo), jsonEdge(r.Max, &b.Hi))
		if err == nil && r.Max != nil && b.Hi < math.MaxInt64 {
			b.Hi++
		}
		if err == nil && (b.Hi < b.Lo || i > 0 && b.Lo < out[i-1].Hi) {
			err = errors.New("out of order")
		}
		if err != nil {
			return nil, fmt.Errorf("histogram: bucket %d: %w", i, err)
		}
		out = append(out, b)
	}
	return out, nil
}

// jsonEdge reads a number, or a string if a float64 can't hold it.
func jsonEdge(raw *json.RawMessage, to *int64) (err error) {
	if raw == nil {
		return nil
	}
	if *to, err = strconv.ParseInt(strings.Trim(string(*raw), `"`), 10, 64); err != nil {
		return fmt.Errorf("edge %.40s: not a number of 64 bits", *raw)
	}
	return nil
}

// Log2Of returns the Log2 that has these buckets, with the smallest k that fits; the error
// is ErrMismatch if none does.
func Log2Of(buckets []Bucket) (*Log2, error) {
	var err error
	for k := range MaxK + 1 {
		h := &Log2{k: uint8(k)}
		if err = h.AddBuckets(buckets); err == nil {
			return h, nil
		}
	}
	return nil, err
}

// AddBuckets adds the counts of buckets. If they are not buckets of h the error is
// ErrMismatch, and nothing is added.
func (h *Log2) AddBuckets(buckets []Bucket) error {
	return addBuckets(buckets, func(b Bucket) int {
		i := Log2Index(max(b.Lo, -1), int(h.k))
		if lo, hi := Log2Bounds(i, int(h.k)); lo != b.Lo || hi != b.Hi {
			return -1
		}
		return i
	}, h.AddBucket)
}

// AddBuckets adds the counts of buckets. If they are not buckets of h the error is
// ErrMismatch, and nothing is added.
func (h *Linear) AddBuckets(buckets []Bucket) error {
	return addBuckets(buckets, func(b Bucket) int {
		i := LinearIndex(b.Lo, h.min, h.max, h.step)
		if lo, hi := h.bounds(i); lo != b.Lo || hi != b.Hi {
			return -1
		}
		return i
	}, h.AddBucket)
}

func addBuckets(buckets []Bucket, index func(Bucket) int, add func(int, uint64)) error {
	for _, b := range buckets {
		if index(b) < 0 {
			return fmt.Errorf("bucket from %d to %d: %w", b.Lo, b.Hi, ErrMismatch)
		}
	}
	for _, b := range buckets {
		add(index(b), b.Count)
	}
	return nil
}
