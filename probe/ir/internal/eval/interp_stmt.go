package eval

// Measure is the number that extremes are kept as: it grows towards the extreme.
func Measure(smallest, signed bool, x uint64) uint64 {
	if signed {
		x ^= 1 << 63
	}
	if smallest {
		x = ^x
	}
	return x
}
