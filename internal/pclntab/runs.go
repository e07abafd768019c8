package pclntab

// Run is a run of instructions of a function with one source position.
type Run struct {
	Off  uint32 // offset of the first instruction from the function's entry
	Line int32
	File int32 // for Func.File
	Call int32 // for Func.Inlined; negative if nothing is inlined there
}

// Runs appends the function's runs in order. The last has Line -1 and is the end of the code
// with lines. ok is false for functions that are malformed, that have more than limit runs, or
// that have so long tables that Spent returns true.
func (fn *Func) Runs(dst []Run, limit int) (_ []Run, ok bool) {
	size := fn.End - fn.Entry
	if size > 1<<31 {
		return dst, false
	}
	line := fn.steps(fn.field(fieldPCLine))
	file := fn.steps(fn.field(fieldPCFile))
	call := fn.steps(fn.pcdata(pcdataInlTree))
	n := len(dst)
	at := uint64(0)
	for at < size {
		line.to(at)
		file.to(at)
		call.to(at)
		if !line.ok {
			break
		}
		r := Run{Off: uint32(at), Line: max(line.v, 0), File: file.v, Call: call.v}
		at = min(line.end, file.end, call.end)
		if k := len(dst) - 1; k >= n && dst[k].Line == r.Line && dst[k].File == r.File &&
			dst[k].Call == r.Call {
			continue
		}
		if len(dst)-n >= limit {
			return dst[:n], false
		}
		dst = append(dst, r)
	}
	return append(dst, Run{uint32(min(at, size)), -1, -1, -1}), !fn.Spent()
}

// stepper walks a pc-value table from run to run. v is -1 if the table has no value.
type stepper struct {
	b     []byte
	fn    *Func
	end   uint64
	v     int32
	sum   int32
	begun bool
	ok    bool
}

func (fn *Func) steps(off uint32) stepper {
	s := stepper{fn: fn, v: -1, sum: -1, ok: true}
	if off != 0 && uint64(off) < uint64(len(fn.t.pctab)) {
		s.b = fn.t.pctab[off:]
	}
	return s
}

// to moves to the run that contains an offset in the function, which must not be before the
// current run.
func (s *stepper) to(at uint64) {
	for s.ok && s.end <= at {
		dv, n := varint(s.b)
		s.ok = n > 0 && (dv != 0 || !s.begun)
		s.begun = true
		if !s.ok {
			break
		}
		dpc, m := varint(s.b[n:])
		if s.fn.taken++; m == 0 || s.fn.Spent() {
			s.ok = false
			break
		}
		s.b = s.b[n+m:]
		s.sum += int32(dv>>1) ^ -int32(dv&1)
		s.end += uint64(dpc) * s.fn.t.minLC
		s.v = s.sum
	}
	if !s.ok {
		s.v, s.end = -1, 1<<63
	}
}
