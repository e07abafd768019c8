package hist

import (
	"fmt"
	"io"
	"math"
	"math/big"
	"strings"
)

// BCCOptions are the options of PrintBCC; the zero value is BCC's default.
type BCCOptions struct {
	// ValType is the heading of the column of values; empty means "value".
	ValType string
	// StripLeadingZero leaves out the empty rows before the first value. Those behind the last
	// one are never printed.
	StripLeadingZero bool
	// Section, if not empty, is printed before the histogram, with Name: "\nSECTION =
	// NAME\n", the line that BCC prints for each key of a map of histograms.
	Section, Name string
}

// PrintBCC writes the histogram as BCC prints one; opts may be nil.
//
// A *Log2 is printed as by Table.print_log2_hist: the buckets of every k are folded to powers
// of two, 0 and 1 are in one, and negative values are in the last, as BCC's logarithm is
// unsigned.
//
// A *Linear is printed as by Table.print_linear_hist: a row for each bucket from the minimum
// on, labelled with its lower edge, which is BCC's own for a minimum of 0 and a step of 1.
// Values below the minimum are an error, because BCC has no row for them.
func PrintBCC(w io.Writer, d Distribution, opts *BCCOptions) error {
	o := bccOptions(opts)
	switch h := d.(type) {
	case *Log2:
		return h.printBCC(w, o)
	case *Linear:
		return h.printBCC(w, o)
	}
	return fmt.Errorf("print: %T has no form of BCC's", d)
}

func (h *Log2) printBCC(w io.Writer, o BCCOptions) error {
	f := h.Fold(0)
	// BCC's slot 1 is 0 and 1, slot i is 2^(i-1) to 2^i-1.
	vals := make([]uint64, 65)
	vals[1] = f.BucketCount(1) + f.BucketCount(2)
	for i := 2; i < 64; i++ {
		vals[i] = f.BucketCount(i + 1)
	}
	vals[64] = f.BucketCount(0)
	_, last := span(vals)
	var b strings.Builder
	o.section(&b)
	header, body, width := "     %-19s : count     distribution\n", "%10d -> %-10d : %-8d |%-*s|\n", 40
	if last > 32 {
		header = "               %-29s : count     distribution\n"
		body, width = "%20d -> %-20d : %-8d |%-*s|\n", 20
	}
	if last > 0 {
		fmt.Fprintf(&b, header, o.ValType)
	}
	most := largest(f)
	most = max(most, vals[1])
	for i := 1; i <= last; i++ {
		if o.StripLeadingZero && vals[i] == 0 {
			continue
		}
		o.StripLeadingZero = false
		low, high := uint64(1)<<(i-1), uint64(math.MaxUint64)>>(64-i)
		if low == high {
			low--
		}
		fmt.Fprintf(&b, body, low, high, vals[i], width, stars(vals[i], most, width))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (h *Linear) printBCC(w io.Writer, o BCCOptions) error {
	if h.counts[0] > 0 {
		return fmt.Errorf("print: %d values below the minimum, for which BCC's layout has no row",
			h.counts[0])
	}
	_, last := span(h.counts)
	var b strings.Builder
	o.section(&b)
	if last > 0 {
		fmt.Fprintf(&b, "     %-13s : count     distribution\n", o.ValType)
	}
	most := largest(h)
	for i := 1; i <= last; i++ {
		if o.StripLeadingZero && h.counts[i] == 0 {
			continue
		}
		o.StripLeadingZero = false
		lo, _ := h.bounds(i)
		fmt.Fprintf(&b, "        %-10d : %-8d |%-*s|\n", lo, h.counts[i], 40,
			stars(h.counts[i], most, 40))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func bccOptions(opts *BCCOptions) BCCOptions {
	o := BCCOptions{}
	if opts != nil {
		o = *opts
	}
	if o.ValType == "" {
		o.ValType = "value"
	}
	return o
}

func (o *BCCOptions) section(b *strings.Builder) {
	if o.Section != "" {
		fmt.Fprintf(b, "\n%s = %s\n", o.Section, o.Name)
	}
}

// stars returns a bar of width * val / most stars, rounded to floating point once and cut off
// as in Python: products of large counts don't fit 64 bits.
func stars(val, most uint64, width int) string {
	if most == 0 {
		return ""
	}
	num := new(big.Int).Mul(new(big.Int).SetUint64(val), big.NewInt(int64(width)))
	share, _ := new(big.Rat).SetFrac(num, new(big.Int).SetUint64(most)).Float64()
	return strings.Repeat("*", min(int(share), width))
}
