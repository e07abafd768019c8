//go:build !amd64

package hist

// addGroup adds the beginnings of the sources, as long as dst.
func addGroup(dst []uint64, s *[together][]uint64) { addGroupGo(dst, s) }
