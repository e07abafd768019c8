package symbol

import (
	"math/bits"
	"slices"
	"sort"
)

// addrIndex makes a search in a sorted list of addresses take few steps, at 2 bytes
// for each: the addresses of a file or of the kernel lie in few ranges of 4 GiB
// (nearly always in one), and each range is cut into buckets of equal width. The
// list itself has the distance of each from the base of its range.
type addrIndex struct {
	segs []addrSeg
}

// addrSeg is the range [base, base+4 GiB) of an addrIndex.
type addrSeg struct {
	base    uint64
	first   int      // index of the range's first address
	end     int      // index after its last
	shift   uint8    // width of a bucket is 1<<shift
	buckets []uint32 // bucket k begins at address number buckets[k]; one more marks the end
}

// maxSegs is the most ranges that are indexed: user space has so many. Addresses
// beyond, of malformed files, are found no more.
const maxSegs = 1 << 15

// newAddrIndex takes addresses in ascending order; equal ones may follow each other.
func newAddrIndex(sorted []uint64) (x addrIndex) {
	for i := 0; i < len(sorted) && len(x.segs) < maxSegs; {
		s := addrSeg{base: sorted[i], first: i, end: len(sorted)}
		if sorted[len(sorted)-1]-s.base > maxDistance {
			s.end = i + sort.Search(len(sorted)-i, func(k int) bool { return sorted[i+k]-s.base > maxDistance })
		}
		s.index(sorted)
		x.segs = append(x.segs, s)
		i = s.end
	}
	return x
}

// maxDistance is how far an address may be from the base of its range.
const maxDistance = 1<<32 - 1

// index fills the range's buckets, about one for every two addresses.
func (s *addrSeg) index(sorted []uint64) {
	n := s.end - s.first
	span := sorted[s.end-1] - s.base + 1
	for span>>s.shift > uint64(n/2+1) {
		s.shift++
	}
	s.buckets = make([]uint32, span>>s.shift+2)
	k := 0
	for i := s.first; i < s.end; i++ {
		for b := int((sorted[i] - s.base) >> s.shift); k <= b; k++ {
			s.buckets[k] = uint32(i)
		}
	}
	for ; k < len(s.buckets); k++ {
		s.buckets[k] = uint32(s.end)
	}
}

// seg returns the range that v lies in or behind, nil if there is none.
func (x *addrIndex) seg(v uint64) *addrSeg {
	n := len(x.segs)
	if n > fewSegs {
		n = sort.Search(n, func(i int) bool { return x.segs[i].base > v })
	}
	for n--; n >= 0; n-- {
		if s := &x.segs[n]; v >= s.base {
			return s
		}
	}
	return nil
}

// fewSegs are looked through one by one.
const fewSegs = 8

// bucket returns between which indices the first address of the range lies that is
// above base+off: those before from are not, those from to on are.
func (s *addrSeg) bucket(off uint64) (from, to int) {
	k := off >> s.shift
	if k >= uint64(len(s.buckets)-1) {
		return s.end, s.end
	}
	return int(s.buckets[k]), int(s.buckets[k+1])
}

// base returns the base of the range of the address with index i.
func (x *addrIndex) base(i int) uint64 {
	n := len(x.segs)
	if n > fewSegs {
		n = sort.Search(n, func(k int) bool { return x.segs[k].first > i })
	}
	for n--; n > 0; n-- {
		if i >= x.segs[n].first {
			return x.segs[n].base
		}
	}
	return x.segs[0].base
}

// bytes is the memory that the index holds.
func (x *addrIndex) bytes() (n int64) {
	for i := range x.segs {
		n += 64 + int64(4*cap(x.segs[i].buckets))
	}
	return n
}

// addrs is a sorted list of addresses with its index.
type addrs struct {
	addrIndex
	lo []uint32 // address - base of its range
}

// newAddrs takes addresses in ascending order; equal ones may follow each other.
func newAddrs(sorted []uint64) addrs {
	a := addrs{newAddrIndex(sorted), make([]uint32, len(sorted))}
	for k := range a.segs {
		s := &a.segs[k]
		for i := s.first; i < s.end; i++ {
			a.lo[i] = uint32(sorted[i] - s.base)
		}
	}
	return a
}

// find returns the index of the last address that is not above v, -1 if there
// is none.
func (a *addrs) find(v uint64) int {
	s := a.seg(v)
	if s == nil {
		return -1
	}
	off := v - s.base
	i, j := s.bucket(off)
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

// at returns the address with index i.
func (a *addrs) at(i int) uint64 { return a.base(i) + uint64(a.lo[i]) }

// bytes is the memory that the list holds.
func (a *addrs) bytes() int64 { return a.addrIndex.bytes() + int64(4*cap(a.lo)) }

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
