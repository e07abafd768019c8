package hist

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// The V2 encoding of HdrHistogram: a header of 40 bytes, then the counts as
// zigzag LEB128 numbers of at most 9 bytes, runs of zeros as negative ones; the
// whole deflated by zlib under a header of its own.
const (
	hdrCookie           = 0x1c849303 | 0x10
	hdrCompressedCookie = 0x1c849304 | 0x10
	hdrHeader           = 40
	// hdrDigits is the precision written: two decimal digits, buckets of 1/128,
	// which any bucket of ours is larger than.
	hdrDigits    = 2
	maxHDRCounts = 1 << 22
)

// HDRInterval is one line of an HdrHistogram log: what was counted from Start
// on, for Length.
type HDRInterval struct {
	Start  time.Time
	Length time.Duration
	Hist   *Log2
}

// WriteHDRLog writes histograms as an HdrHistogram log, version 1.3, that its
// tools read. Counts are kept exactly; each is recorded with the middle of its
// bucket as value, which keeps a histogram's error as it is. maxUnit is what the
// log's Interval_Max column divides by: 1e6 where values are nanoseconds, by
// convention. Negative values are ErrNegative.
func WriteHDRLog(w io.Writer, maxUnit float64, intervals []HDRInterval) error {
	if len(intervals) == 0 {
		return errors.New("HDR log: no intervals")
	}
	start := intervals[0].Start
	var b strings.Builder
	b.WriteString("#[Histogram log format version 1.3]\n")
	fmt.Fprintf(&b, "#[StartTime: %.3f (seconds since epoch), %s]\n",
		float64(start.UnixMilli())/1000, start.UTC().Format("Mon Jan 02 15:04:05 UTC 2006"))
	b.WriteString(`"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"` + "\n")
	for _, i := range intervals {
		encoded, err := i.Hist.EncodeHDR()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%.3f,%.3f,%.3f,%s\n", float64(i.Start.UnixMilli())/1000, i.Length.Seconds(),
			float64(i.Hist.largest())/maxUnit, base64.StdEncoding.EncodeToString(encoded))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// largest is the middle of the highest bucket that is not empty.
func (h *Log2) largest() int64 {
	_, last := span(h.counts)
	if last < 1 {
		return 0
	}
	return hdrValue(last, int(h.k))
}

// hdrValue is the value that stands for a bucket.
func hdrValue(index, k int) int64 {
	lo, hi := Log2Bounds(index, k)
	if hi != math.MaxInt64 {
		hi--
	}
	return lo + (hi-lo)/2
}

// hdrIndex is HdrHistogram's index of a value: 256 buckets of one value, then
// 128 per power of two.
func hdrIndex(v int64) int {
	shift := max(bits.Len64(uint64(v))-8, 0)
	return shift<<7 + int(v>>shift)
}

// hdrLower is the first value of an index.
func hdrLower(i, subBits int) int64 {
	half := subBits - 1
	if i < 1<<subBits {
		return int64(i)
	}
	shift := i>>half - 1
	return int64(i-shift<<half) << shift
}

// EncodeHDR returns the histogram in HdrHistogram's compressed V2 encoding, with
// two significant digits; see WriteHDRLog.
func (h *Log2) EncodeHDR() ([]byte, error) {
	if n := h.BucketCount(0); n > 0 {
		return nil, fmt.Errorf("HDR histogram: %d %w", n, ErrNegative)
	}
	counts := []uint64(nil)
	for i := 1; i < len(h.counts); i++ {
		if h.counts[i] == 0 {
			continue
		}
		if h.counts[i] > math.MaxInt64 {
			return nil, fmt.Errorf("HDR histogram: a count of %d", h.counts[i])
		}
		at := hdrIndex(hdrValue(i, int(h.k)))
		if at >= len(counts) {
			counts = append(counts, make([]uint64, at+1-len(counts))...)
		}
		counts[at] += h.counts[i]
	}
	payload := hdrCounts(counts)
	highest := int64(math.MaxInt64)
	if n := len(counts); n > 0 {
		highest = max(hdrLower(n, 8)-1, 2)
		if highest < 0 {
			highest = math.MaxInt64
		}
	}
	head := binary.BigEndian.AppendUint32(nil, hdrCookie)
	head = binary.BigEndian.AppendUint32(head, uint32(len(payload)))
	head = binary.BigEndian.AppendUint32(head, 0) // normalizing index offset
	head = binary.BigEndian.AppendUint32(head, hdrDigits)
	head = binary.BigEndian.AppendUint64(head, 1) // lowest discernible value
	head = binary.BigEndian.AppendUint64(head, uint64(highest))
	head = binary.BigEndian.AppendUint64(head, math.Float64bits(1)) // integer to double ratio
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write(append(head, payload...)) // a buffer takes everything
	_ = w.Close()
	out := binary.BigEndian.AppendUint32(nil, hdrCompressedCookie)
	out = binary.BigEndian.AppendUint32(out, uint32(z.Len()))
	return append(out, z.Bytes()...), nil
}

func hdrCounts(counts []uint64) []byte {
	var b []byte
	for i := 0; i < len(counts); {
		zeros := 0
		for i+zeros < len(counts) && counts[i+zeros] == 0 {
			zeros++
		}
		if zeros > 0 {
			b = appendZigZag(b, -int64(zeros))
			i += zeros
			continue
		}
		b = appendZigZag(b, int64(counts[i]))
		i++
	}
	return b
}

// appendZigZag is LEB128 with all eight bits of a ninth byte.
func appendZigZag(b []byte, v int64) []byte {
	u := uint64(v<<1) ^ uint64(v>>63)
	for range 8 {
		if u < 0x80 {
			return append(b, byte(u))
		}
		b = append(b, byte(u)|0x80)
		u >>= 7
	}
	return append(b, byte(u))
}

// zigZag returns the number and how many bytes it has, 0 if they are cut off.
func zigZag(b []byte) (int64, int) {
	u := uint64(0)
	for i := range min(len(b), 9) {
		if i == 8 {
			u |= uint64(b[i]) << 56
		} else {
			u |= uint64(b[i]&0x7f) << (7 * i)
		}
		if i == 8 || b[i] < 0x80 {
			return int64(u>>1) ^ -int64(u&1), i + 1
		}
	}
	return 0, 0
}

// DecodeHDR reads HdrHistogram's compressed V2 encoding, of any precision, into
// a Log2 with that k: values are taken at the middle of their bucket.
func DecodeHDR(b []byte, k int) (*Log2, error) {
	h, err := NewLog2(k)
	if err != nil {
		return nil, err
	}
	if len(b) < 8 || binary.BigEndian.Uint32(b) != hdrCompressedCookie {
		return nil, errors.New("HDR histogram: not in the compressed V2 encoding")
	}
	b = b[8:min(len(b), 8+int(min(binary.BigEndian.Uint32(b[4:]), 1<<30)))]
	z, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("HDR histogram: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(z, 16*maxHDRCounts))
	if err != nil {
		return nil, fmt.Errorf("HDR histogram: %w", err)
	}
	if len(raw) < hdrHeader || binary.BigEndian.Uint32(raw) != hdrCookie {
		return nil, errors.New("HDR histogram: not V2")
	}
	digits, unit := binary.BigEndian.Uint32(raw[12:]), binary.BigEndian.Uint64(raw[16:])
	if digits > 5 || unit == 0 || unit > math.MaxInt64 || binary.BigEndian.Uint32(raw[8:]) != 0 {
		return nil, fmt.Errorf("HDR histogram: %d digits, unit %d: not supported", digits, unit)
	}
	n := binary.BigEndian.Uint32(raw[4:])
	if int64(n) > int64(len(raw)-hdrHeader) {
		return nil, fmt.Errorf("HDR histogram: counts: %w", io.ErrUnexpectedEOF)
	}
	subBits := bits.Len(uint(2*math.Pow10(int(digits))) - 1)
	if err := h.addHDR(raw[hdrHeader:hdrHeader+int(n)], subBits, bits.Len64(unit)-1); err != nil {
		return nil, err
	}
	return h, nil
}

// addHDR adds the counts of a payload.
func (h *Log2) addHDR(b []byte, subBits, unitShift int) error {
	for at := 0; len(b) > 0; {
		v, n := zigZag(b)
		if n == 0 {
			return fmt.Errorf("HDR histogram: counts: %w", io.ErrUnexpectedEOF)
		}
		b = b[n:]
		if v < 0 {
			if v < -maxHDRCounts || at-int(v) > maxHDRCounts {
				return errors.New("HDR histogram: too many buckets")
			}
			at -= int(v)
			continue
		}
		if v > 0 {
			shift := max(at>>(subBits-1)-1, 0) + unitShift
			if shift+subBits > 63 {
				return errors.New("HDR histogram: a value of more than 63 bits")
			}
			lo := hdrLower(at, subBits) << unitShift
			h.AddN(lo+(int64(1)<<shift-1)/2, uint64(v))
		}
		at++
	}
	return nil
}

// ReadHDRLog reads an HdrHistogram log into histograms with that k. Lines with
// tags are read as those without.
func ReadHDRLog(r io.Reader, k int) ([]HDRInterval, error) {
	data, err := io.ReadAll(io.LimitReader(r, 1<<30))
	if err != nil {
		return nil, fmt.Errorf("HDR log: %w", err)
	}
	var out []HDRInterval
	base := 0.0
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if v, ok := strings.CutPrefix(line, "#[BaseTime: "); ok {
			base, _ = strconv.ParseFloat(strings.Fields(v + " 0")[0], 64)
		}
		if line == "" || line[0] == '#' || line[0] == '"' {
			continue
		}
		interval, err := parseHDRLine(line, base, k)
		if err != nil {
			return nil, fmt.Errorf("HDR log:%d: %w", i+1, err)
		}
		out = append(out, interval)
	}
	return out, nil
}

func parseHDRLine(line string, base float64, k int) (HDRInterval, error) {
	fields := strings.Split(line, ",")
	if len(fields) == 5 && strings.HasPrefix(fields[0], "Tag=") {
		fields = fields[1:]
	}
	if len(fields) != 4 {
		return HDRInterval{}, fmt.Errorf("%d fields, not 4: want [Tag=TEXT,]START,LENGTH,MAX,HISTOGRAM", len(fields))
	}
	start, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return HDRInterval{}, fmt.Errorf("start %.40q: not a number of seconds", fields[0])
	}
	length, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		return HDRInterval{}, fmt.Errorf("length %.40q: not a number of seconds", fields[1])
	}
	if start += base; !(math.Abs(start) < 1e12) || !(length >= 0 && length < 1e9) {
		return HDRInterval{}, errors.New("time out of range")
	}
	b, err := base64.StdEncoding.DecodeString(fields[3])
	if err != nil {
		return HDRInterval{}, err
	}
	h, err := DecodeHDR(b, k)
	if err != nil {
		return HDRInterval{}, err
	}
	return HDRInterval{
		Start: time.UnixMilli(int64(math.Round(start * 1000))), Length: time.Duration(length * 1e9), Hist: h,
	}, nil
}
