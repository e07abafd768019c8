package symbol

import (
	"math/bits"
	"slices"
)

// addrs is a sorted list of addresses that takes 4 bytes for each, and half of
// that for an index that makes a search take few steps: the addresses of a file
// or of the kernel lie in few ranges of 4 GiB (nearly always in one), and each
// range is cut into buckets of equal width.
type addrs struct {
	lo   []uint32 // address - base of its range
	segs []addrSeg
}

// addrSeg is the range [base, base+4 GiB) of addrs.
type addrSeg struct {
	base    uint64
	first   int      // index in lo of the range's first address
	end     int      // index after its last
	shift   uint8    // width of a bucket is 1<<shift
	buckets []uint32 // bucket k begins at lo[buckets[k]]; one more marks the end
}

// newAddrs takes addresses in ascending order; equal ones may follow each other.
func newAddrs(sorted []uint64) addrs {
	a := addrs{lo: make([]uint32, len(sorted))}
	for i, v := range sorted {
		if n := len(a.segs); n == 0 || v-a.segs[n-1].base > 1<<32-1 {
			a.segs = append(a.segs, addrSeg{base: v, first: i})
		}
		s := &a.segs[len(a.segs)-1]
		a.lo[i] = uint32(v - s.base)
		s.end = i + 1
	}
	for i := range a.segs {
		a.segs[i].index(a.lo)
	}
	return a
}

// index fills the range's buckets, about one for every two addresses.
func (s *addrSeg) index(lo []uint32) {
	n := s.end - s.first
	span := uint64(lo[s.end-1]) + 1
	for span>>s.shift > uint64(n/2+1) {
		s.shift++
	}
	s.buckets = make([]uint32, span>>s.shift+2)
	k := 0
	for i := s.first; i < s.end; i++ {
		for b := int(lo[i] >> s.shift); k <= b; k++ {
			s.buckets[k] = uint32(i)
		}
	}
	for ; k < len(s.buckets); k++ {
		s.buckets[k] = uint32(s.end)
	}
}

// find returns the index of the last address that is not above v, -1 if there
// is none.
func (a *addrs) find(v uint64) int {
	for i := len(a.segs) - 1; i >= 0; i-- {
		if s := &a.segs[i]; v >= s.base {
			return s.find(a.lo, v-s.base)
		}
	}
	return -1
}

func (s *addrSeg) find(lo []uint32, off uint64) int {
	k := off >> s.shift
	if k >= uint64(len(s.buckets)-1) {
		return s.end - 1
	}
	i, j := int(s.buckets[k]), int(s.buckets[k+1])
	for j-i > 8 {
		m := int(uint(i+j) >> 1)
		if uint64(lo[m]) <= off {
			i = m + 1
		} else {
			j = m
		}
	}
	for i < j && uint64(lo[i]) <= off {
		i++
	}
	// The first address of the range is its base, which is not above v.
	return i - 1
}

// at returns the address with index i.
func (a *addrs) at(i int) uint64 {
	for k := len(a.segs) - 1; k > 0; k-- {
		if i >= a.segs[k].first {
			return a.segs[k].base + uint64(a.lo[i])
		}
	}
	return a.segs[0].base + uint64(a.lo[i])
}

// bytes is the memory that the list holds.
func (a *addrs) bytes() int64 {
	n := int64(4*cap(a.lo)) + int64(64*len(a.segs))
	for i := range a.segs {
		n += int64(4 * cap(a.segs[i].buckets))
	}
	return n
}

// sortKeys sorts keys, whose upper 32 bits count, and keeps the order of equal
// ones. It uses tmp, which must be as long, and returns whichever of the two
// holds the result.
func sortKeys(keys, tmp []uint64) []uint64 {
	if len(keys) < 256 {
		slices.SortStableFunc(keys, func(a, b uint64) int { return cmp32(uint32(a>>32), uint32(b>>32)) })
		return keys
	}
	// As few passes as digits of 13 bits need for the largest key.
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

// maxDigit is how many bits sortKeys sorts by in one pass: its counters fit the
// processor's first cache.
const maxDigit = 13

func cmp32(a, b uint32) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}
