package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/bpfasm"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// aggregate adds a value to an aggregating map.
func (g *statements) aggregate(s *typed.Stmt) {
	hit, done := g.label(), g.label()
	m := s.Map
	var x func(asm.Register)
	var at, now loc
	switch m.Agg {
	case ir.AggHist, ir.AggLinear:
		at = g.bucketKey(s)
	case ir.AggSeries:
		if s.X != nil {
			x = g.settled(s.X)
		}
		time := func(asm.Register) { g.call(asm.FnKtimeGetNs) }
		if s.Time != nil {
			time = g.settled(s.Time)
		}
		at, now = g.seriesKey(s, time)
	default:
		if s.X != nil {
			x = g.settled(s.X)
		}
		at = g.keyAt(m, s.Key)
	}
	for _, n := range check.ClassesOf(m) {
		deeper := g.label()
		g.load(asm.R0, at.at(8*n), 8)
		g.emit(asm.JNE.Imm(asm.R0, 0, deeper))
		g.findOrCreateIn(check.ClassName(m, n), m, at, check.AggSize(m), hit, done)
		g.jump(hit)
		g.Label(deeper)
	}
	if limit, err := check.KeyLimit(m, g.c.Kern); err == nil && limit < check.KernelKey(m).Size {
		over := g.label()
		g.load(asm.R0, at.at(limit), 8)
		g.emit(asm.JNE.Imm(asm.R0, 0, over))
		g.later(over, func() {
			g.count(g.lay.Lost(m))
			g.jump(done)
		})
	}
	g.findOrCreateAt(m, at, check.AggSize(m), hit, done)
	g.Label(hit)
	inner := m.Agg
	if inner == ir.AggSeries {
		inner = m.Inner
	}
	if inner == ir.AggLast {
		g.last(now, x)
	} else {
		g.update(inner, m.Signed, x)
	}
	g.Label(done)
}

// last sets the value that R0 points to and its time. A program that comes in between on the same
// CPU has a later time, and may have its value replaced by this one.
func (g *runtime) last(now loc, x func(asm.Register)) {
	g.load(asm.R1, now, 8)
	g.emit(asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord))
	x(asm.R1)
	g.emit(asm.StoreMem(asm.R0, 8, asm.R1, asm.DWord))
}

// update adds a value, which x loads, to the aggregation that R0 points to.
func (g *runtime) update(a ir.Agg, signed bool, x func(asm.Register)) {
	add := func(off int16, load func(asm.Register)) {
		load(asm.R1)
		g.emit(asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, off))
	}
	one := func(r asm.Register) { g.emit(asm.Mov.Imm(r, 1)) }
	tick := func(off int16) {
		one(asm.R1)
		if g.plan.Arch == "arm64" && g.atomics() {
			// On arm64 an addition without a result orders nothing (STADD). With a result it
			// is LDADDAL, a full barrier: a reader on another CPU sees begun change before
			// the fields, and the fields before done.
			g.emit(bpfasm.Atomic(asm.FetchAdd, asm.R0, asm.R1, off))
			return
		}
		g.emit(asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, off))
	}
	switch a {
	case ir.AggSum:
		add(0, x)
	case ir.AggMin, ir.AggMax:
		x(asm.R1)
		g.extreme(a == ir.AggMin, signed, ir.AggFirst)
		tick(ir.AggDone)
	case ir.AggAvg:
		tick(16)
		add(ir.AggFirst, x)
		tick(ir.AggDone)
	case ir.AggStats:
		tick(32)
		add(ir.AggFirst, x)
		x(asm.R1)
		g.extreme(true, signed, 16)
		x(asm.R1)
		g.extreme(false, signed, 24)
		tick(ir.AggDone)
	default:
		add(0, one)
	}
}

// extreme raises the field at off of the value at R0 to R1's measure: the number itself for a
// maximum, its complement for a minimum, with the sign bit flipped for signed values. A
// nested program may raise the field between the read and the write, so the write is a
// compare-and-exchange if the kernel has that. On older kernels (5.10; arm64 before 5.18) an
// extreme may be lost: that of a program in an interrupt or NMI that comes between the two
// instructions. Package action documents this. Count, sum and average are exact on every
// kernel.
func (g *runtime) extreme(smallest, signed bool, off int16) {
	if signed {
		g.emit(asm.LoadImm(asm.R2, -1<<63, asm.DWord), asm.Xor.Reg(asm.R1, asm.R2))
	}
	if smallest {
		g.emit(asm.Xor.Imm(asm.R1, -1))
	}
	end := g.label()
	if !g.atomics() {
		g.emit(
			asm.LoadMem(asm.R2, asm.R0, off, asm.DWord), asm.JLE.Reg(asm.R1, asm.R2, end),
			asm.StoreMem(asm.R0, off, asm.R1, asm.DWord),
		)
		g.Label(end)
		return
	}
	// CMPXCHG compares with R0, so the address moves to R3.
	g.emit(asm.Mov.Reg(asm.R3, asm.R0))
	for range check.Levels {
		g.emit(asm.LoadMem(asm.R0, asm.R3, off, asm.DWord), asm.JLE.Reg(asm.R1, asm.R0, end))
		g.emit(asm.Mov.Reg(asm.R2, asm.R0), bpfasm.Atomic(asm.CmpXchg, asm.R3, asm.R1, off))
		g.emit(asm.JEq.Reg(asm.R0, asm.R2, end))
	}
	g.Label(end)
	g.emit(asm.Mov.Reg(asm.R0, asm.R3))
}

// bucketKey returns the place of the key of a histogram's bucket: the map's own key followed
// by the bucket's index, or the index alone.
func (g *statements) bucketKey(s *typed.Stmt) loc {
	m := s.Map
	if m.Keyless() {
		at := g.slot()
		g.scalar(s.X, asm.R1)
		g.bucket(m)
		g.store(at, asm.R1, 8)
		return at
	}
	kt := check.KernelKey(m)
	at := g.temp(kt.Size)
	end := m.Key.Size
	g.value(s.Key, at)
	g.zero(at.at(end), kt.Fields[1].Offset-end)
	g.scalar(s.X, asm.R1)
	g.bucket(m)
	end = kt.Fields[1].Offset
	g.store(at.at(end), asm.R1, 4)
	g.zero(at.at(end+4), kt.Size-end-4)
	return at
}

// seriesKey returns the place of the key of a time slot: the map's own key followed by the
// interval's number; and, if the newest value counts, the place of the time, which time loads into R0.
func (g *statements) seriesKey(s *typed.Stmt, time func(asm.Register)) (at, now loc) {
	m := s.Map
	kt := check.KernelKey(m)
	at = g.temp(kt.Size)
	off := 0
	if !m.Keyless() {
		g.value(s.Key, at)
		off = kt.Fields[1].Offset
		g.zero(at.at(m.Key.Size), off-m.Key.Size)
	}
	time(asm.R0)
	if m.Inner == ir.AggLast {
		now = g.slot()
		g.store(now, asm.R0, 8)
	}
	g.emit(asm.LoadImm(asm.R1, m.Interval, asm.DWord), asm.Div.Reg(asm.R0, asm.R1))
	g.store(at.at(off), asm.R0, 8)
	return at, now
}

// bucket replaces the value in R1 by its bucket's index.
func (g *runtime) bucket(m *ir.Map) {
	if m.Agg == ir.AggLinear {
		g.linearBucket(m)
		return
	}
	k := int32(m.Bits)
	neg, small, end := g.label(), g.label(), g.label()
	g.emit(asm.JSLT.Imm(asm.R1, 0, neg), asm.JLT.Imm(asm.R1, 1<<k, small))
	// The highest bit set, by halving: 2^h-1-v is negative exactly if v needs more than h
	// bits. Without branches the verifier walks one path.
	g.emit(asm.Mov.Reg(asm.R2, asm.R1), asm.Mov.Imm(asm.R3, 0))
	for h := int32(5); h >= 0; h-- {
		g.emit(asm.LoadImm(asm.R4, 1<<(1<<h)-1, asm.DWord))
		g.emit(asm.Sub.Reg(asm.R4, asm.R2), asm.RSh.Imm(asm.R4, 63), asm.LSh.Imm(asm.R4, h))
		g.emit(asm.RSh.Reg(asm.R2, asm.R4), asm.Add.Reg(asm.R3, asm.R4))
	}
	if k == 0 {
		g.emit(asm.Mov.Reg(asm.R1, asm.R3), asm.Add.Imm(asm.R1, 2))
	} else {
		g.emit(asm.Sub.Imm(asm.R3, k), asm.RSh.Reg(asm.R1, asm.R3), asm.And.Imm(asm.R1, 1<<k-1))
		g.emit(asm.Add.Imm(asm.R3, 1), asm.LSh.Imm(asm.R3, k), asm.Or.Reg(asm.R1, asm.R3),
			asm.Add.Imm(asm.R1, 1))
	}
	g.jump(end)
	g.Label(small)
	g.emit(asm.Add.Imm(asm.R1, 1))
	g.jump(end)
	g.Label(neg)
	g.emit(asm.Mov.Imm(asm.R1, 0))
	g.Label(end)
}

func (g *runtime) linearBucket(m *ir.Map) {
	low, high, end := g.label(), g.label(), g.label()
	g.emit(asm.LoadImm(asm.R2, m.Min, asm.DWord), asm.JSLT.Reg(asm.R1, asm.R2, low))
	g.emit(asm.LoadImm(asm.R3, m.Max, asm.DWord), asm.JSGE.Reg(asm.R1, asm.R3, high))
	g.emit(asm.Sub.Reg(asm.R1, asm.R2), asm.LoadImm(asm.R2, m.Step, asm.DWord),
		asm.Div.Reg(asm.R1, asm.R2))
	g.emit(asm.Add.Imm(asm.R1, 1))
	g.jump(end)
	g.Label(low)
	g.emit(asm.Mov.Imm(asm.R1, 0))
	g.jump(end)
	g.Label(high)
	g.emit(asm.Mov.Imm(asm.R1, int32(eval.LinearBuckets(m.Min, m.Max, m.Step)-1)))
	g.Label(end)
}
