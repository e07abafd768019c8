package pclntab

// SPDeltas calls yield for each run of instructions with the same SPDelta, in order, until it
// returns false. Padding behind the function is not in a run, nor is anything behind an error
// in the table.
func (fn *Func) SPDeltas(yield func(from, to uint64, delta int64) bool) {
	off := fn.field(fieldPCSP)
	if off == 0 || uint64(off) >= uint64(len(fn.t.pctab)) {
		return
	}
	b := fn.t.pctab[off:]
	v, at := int32(-1), fn.Entry
	for first := true; at < fn.End; first = false {
		dv, n := varint(b)
		if n == 0 || dv == 0 && !first {
			return
		}
		dpc, m := varint(b[n:])
		if m == 0 || dpc == 0 {
			return
		}
		b = b[n+m:]
		v += int32(dv>>1) ^ -int32(dv&1)
		from := at
		at += uint64(dpc) * fn.t.minLC
		if !yield(from, min(at, fn.End), int64(v)) {
			return
		}
	}
}
