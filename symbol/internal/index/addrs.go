package index

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
	"sort"
)

// AddrIndex makes searches in a sorted list of addresses take few steps, at 2 bytes for each.
// The addresses of a file or of the kernel are in few ranges of 4 GiB (nearly always one), and
// each range is divided into buckets of equal width. The list itself contains the distance of
// each address from the base of its range.
type AddrIndex struct {
	segs []addrSeg
}

// addrSeg is the range [base, base+4 GiB) of an AddrIndex.
type addrSeg struct {
	Base    uint64
	first   int      // index of the range's first address
	End     int      // index after its last address
	shift   uint8    // the width of a bucket is 1<<shift
	buckets []uint32 // bucket k begins at address number buckets[k]; one more marks the end
}

// maxSegs is the largest number of ranges that are indexed: user space has so many. Further
// addresses, of malformed files, are not found.
const maxSegs = 1 << 15

// NewAddrIndex indexes addresses, which are in ascending order; there may be equal ones.
func NewAddrIndex(sorted []uint64) (x AddrIndex) {
	for i := 0; i < len(sorted) && len(x.segs) < maxSegs; {
		s := addrSeg{Base: sorted[i], first: i, End: len(sorted)}
		if sorted[len(sorted)-1]-s.Base > MaxDistance {
			s.End = i + sort.Search(len(sorted)-i, func(k int) bool {
				return sorted[i+k]-s.Base > MaxDistance
			})
		}
		s.index(sorted)
		if len(x.segs) == cap(x.segs) {
			x.segs = slices.Grow(x.segs, len(x.segs)+1) // append alone would allocate five times as much
		}
		x.segs = append(x.segs, s)
		i = s.End
	}
	return x
}

// MaxDistance is the largest distance of an address from the base of its range.
const MaxDistance = 1<<32 - 1

// index fills the range's buckets, about one for every two addresses.
func (s *addrSeg) index(sorted []uint64) {
	n := s.End - s.first
	span := sorted[s.End-1] - s.Base + 1
	for span>>s.shift > uint64(n/2+1) {
		s.shift++
	}
	s.buckets = make([]uint32, span>>s.shift+2)
	k := 0
	for i := s.first; i < s.End; i++ {
		for b := int((sorted[i] - s.Base) >> s.shift); k <= b; k++ {
			s.buckets[k] = uint32(i)
		}
	}
	for ; k < len(s.buckets); k++ {
		s.buckets[k] = uint32(s.End)
	}
}

// Seg returns the last range whose base is not above v, nil if there is none.
func (x *AddrIndex) Seg(v uint64) *addrSeg {
	n := len(x.segs)
	if n > fewSegs {
		n = sort.Search(n, func(i int) bool { return x.segs[i].Base > v })
	}
	for n--; n >= 0; n-- {
		if s := &x.segs[n]; v >= s.Base {
			return s
		}
	}
	return nil
}

// fewSegs is the number of ranges up to which they are searched one by one.
const fewSegs = 8

// Bucket returns the indices between which the range's first address above base+off is: those
// before from are not above, those from to on are.
func (s *addrSeg) Bucket(off uint64) (from, to int) {
	k := off >> s.shift
	if k >= uint64(len(s.buckets)-1) {
		return s.End, s.End
	}
	return int(s.buckets[k]), int(s.buckets[k+1])
}

// Base returns the base of the range of the address with index i.
func (x *AddrIndex) Base(i int) uint64 {
	n := len(x.segs)
	if n > fewSegs {
		n = sort.Search(n, func(k int) bool { return x.segs[k].first > i })
	}
	for n--; n > 0; n-- {
		if i >= x.segs[n].first {
			return x.segs[n].Base
		}
	}
	return x.segs[0].Base
}

// Bytes returns the memory that the index takes, in bytes.
func (x *AddrIndex) Bytes() (n int64) {
	for i := range x.segs {
		n += 64 + int64(4*cap(x.segs[i].buckets))
	}
	return n
}

// Addrs is a sorted list of addresses with its index.
type Addrs struct {
	AddrIndex
	lo []uint32 // address - base of its range
}

// NewAddrs returns the list of addresses, which are in ascending order; there may be equal
// ones.
func NewAddrs(sorted []uint64) Addrs {
	a := Addrs{NewAddrIndex(sorted), make([]uint32, len(sorted))}
	for k := range a.segs {
		s := &a.segs[k]
		for i := s.first; i < s.End; i++ {
			a.lo[i] = uint32(sorted[i] - s.Base)
		}
	}
	return a
}

// Find returns the index of the last address that is not above v, -1 if there
// is none.
func (a *Addrs) Find(v uint64) int {
	s := a.Seg(v)
	if s == nil {
		return -1
	}
	off := v - s.Base
	i, j := s.Bucket(off)
	for j-i > 8 {
		m := int(uint(i+j) >> 1)
		if uint64(a.lo[m]) <= off {
			i = m + 1
		} else {
			j = m
		}
	}
	for i < j && uint64(a.lo[i]) <= off {
		i++
	}
	// The first address of the range is its base, which is not above v.
	return i - 1
}

// At returns the address with index i.
func (a *Addrs) At(i int) uint64 { return a.Base(i) + uint64(a.lo[i]) }

// Bytes returns the memory that the list takes, in bytes.
func (a *Addrs) Bytes() int64 { return a.AddrIndex.Bytes() + int64(4*cap(a.lo)) }

// SortKeys sorts keys by their upper 32 bits, and keeps the order of equal ones. It uses tmp,
// which must have the same length, and returns the one of the two that contains the result.
func SortKeys(keys, tmp []uint64) []uint64 {
	if len(keys) < 256 {
		slices.SortStableFunc(keys, func(a, b uint64) int { return cmp.Compare(a>>32, b>>32) })
		return keys
	}
	// The fewest passes with digits of at most 13 bits, for the largest key.
	largest := uint64(0)
	for _, k := range keys {
		largest = max(largest, k>>32)
	}
	width := bits.Len64(largest)
	passes := max((width+maxDigit-1)/maxDigit, 1)
	digit := (width + passes - 1) / passes
	mask := uint64(1)<<digit - 1
	var count [1 << maxDigit]uint32
	for pass := range passes {
		shift := 32 + pass*digit
		c := count[:mask+1]
		clear(c)
		for _, k := range keys {
			c[k>>shift&mask]++
		}
		sum := uint32(0)
		for i, n := range c {
			c[i] = sum
			sum += n
		}
		for _, k := range keys {
			d := k >> shift & mask
			tmp[c[d]] = k
			c[d]++
		}
		keys, tmp = tmp, keys
	}
	return keys
}

// maxDigit is the largest number of bits that SortKeys sorts by in one pass. Its counters fit
// the processor's first-level cache.
const maxDigit = 13

// CompareNames orders names of one address, the better first: the name with fewer leading
// underscores, then the shorter one, then the first in the order of bytes.
func CompareNames(a, b []byte) int {
	if c := cmp.Compare(underscores(a), underscores(b)); c != 0 {
		return c
	}
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return bytes.Compare(a, b)
}

func underscores(b []byte) int {
	for i, c := range b {
		if c != '_' {
			return i
		}
	}
	return len(b)
}
