package elffile

import "testing"

// Ranges that overlap, and in any order, give what a search of all of them gives.
func FuzzSpans(f *testing.F) {
	f.Add([]byte{1, 5, 3, 9, 0, 0, 200, 255, 2, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		n := len(b) / 2
		span := func(i int) (from, size uint64) {
			from, size = uint64(b[2*i]), uint64(b[2*i+1])
			if from >= 128 {
				from |= 0xffff_ffff_ffff_ff00 // up to the last addresses
			}
			return from, size
		}
		s := newSpans(n, span)
		for i := range 512 {
			addr := uint64(i - 256)
			if addr == 1<<64-1 {
				continue // no file has the last byte of all
			}
			want := -1
			for k := n - 1; k >= 0; k-- {
				if from, size := span(k); addr >= from && addr-from < size {
					want = k
				}
			}
			if got := s.find(addr); got != want {
				t.Fatalf("%#x is in %d, want %d", addr, got, want)
			}
		}
	})
}
