package eval

import "encoding/binary"

// Frames is how many program counters a stack has.
func Frames(b []byte) int {
	for i := range len(b) / 8 {
		if binary.LittleEndian.Uint64(b[8*i:]) == 0 {
			return i
		}
	}
	return len(b) / 8
}
