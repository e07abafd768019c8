package hist

import "github.com/borescope/borescope/internal/cpus"

// addFours adds the first 4·fours counts of all sources to dst. The compiler
// does not add several at a time; AVX2 does.
//
//go:noescape
func addFours(dst *uint64, s *[together][]uint64, fours int)

// addGroup adds the beginnings of the sources, as long as dst.
func addGroup(dst []uint64, s *[together][]uint64) {
	fours := len(dst) / 4
	if fours == 0 || !cpus.AVX2() {
		addGroupGo(dst, s)
		return
	}
	for i := range s {
		_ = s[i][:len(dst)]
	}
	addFours(&dst[0], s, fours)
	for i := 4 * fours; i < len(dst); i++ {
		for _, src := range s {
			dst[i] += src[i]
		}
	}
}
