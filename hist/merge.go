package hist

// together is the number of sources that are added in one pass: their pointers fit in
// registers, so that a sum is stored once for all of them.
const together = 8

// zeros replaces sources that have ended while others have not. It is never written.
var zeros [1 + (64-MaxK)<<MaxK]uint64

// addCounts adds the first n sources to dst, which is as long as the longest one.
func addCounts(dst []uint64, sources *[together][]uint64, n int) {
	if n < together/2 {
		for _, s := range sources[:n] {
			addOne(dst, s)
		}
		return
	}
	for from, to := 0, 0; ; from = to {
		left := 0
		for _, s := range sources {
			if n := len(s) - from; n > 0 && (left == 0 || n < left) {
				left = n
			}
		}
		if left == 0 {
			return
		}
		to = from + left
		var part [together][]uint64
		for i, s := range sources {
			if len(s) > from {
				part[i] = s[from:to]
			} else {
				part[i] = zeros[:to-from]
			}
		}
		addGroup(dst[from:to], &part)
	}
}

func addOne(dst, src []uint64) {
	dst = dst[:len(src)]
	for i, n := range src {
		dst[i] += n
	}
}

// addGroup adds the first len(dst) counts of each source.
func addGroup(dst []uint64, s *[together][]uint64) {
	n := len(dst)
	s0, s1, s2, s3 := s[0][:n], s[1][:n], s[2][:n], s[3][:n]
	s4, s5, s6, s7 := s[4][:n], s[5][:n], s[6][:n], s[7][:n]
	for i := range dst {
		dst[i] += s0[i] + s1[i] + s2[i] + s3[i] + s4[i] + s5[i] + s6[i] + s7[i]
	}
}
