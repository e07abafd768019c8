package layout

import "unsafe"

// AlignedBytes returns n bytes that start on an 8-byte boundary, so that values of any
// fixed-size type may be read in place.
func AlignedBytes(n int) []byte {
	if n == 0 {
		return nil
	}
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}
