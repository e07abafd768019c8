package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// storageOwner loads into R2 the object that the map's value belongs to: the current task, or
// its cgroup.
func (g *runtime) storageOwner(m *ir.Map) {
	g.call(asm.FnGetCurrentTaskBtf)
	g.emit(asm.Mov.Reg(asm.R2, asm.R0))
	if m.Kind == ir.MapCgroupStorage {
		p := g.c.Cgroup
		g.emit(asm.LoadMem(asm.R2, asm.R2, p.Set, asm.DWord),
			asm.LoadMem(asm.R2, asm.R2, p.Cgroup, asm.DWord))
	}
}

// storageGet loads the address of the value, or zero, into R0. If create is set, it creates a
// missing value from the value at a place, or as zeros.
func (g *runtime) storageGet(m *ir.Map, value *loc, create bool) {
	fn := asm.FnTaskStorageGet
	if m.Kind == ir.MapCgroupStorage {
		fn = asm.FnCgrpStorageGet
	}
	g.storageOwner(m)
	if value != nil {
		g.addr(asm.R3, *value)
	} else {
		g.emit(asm.Mov.Imm(asm.R3, 0))
	}
	g.emit(asm.Mov.Imm(asm.R4, int32(eval.B2u(create)))) // BPF_LOCAL_STORAGE_GET_F_CREATE
	g.mapCall(m, fn)
}

// storageDelete removes the value. It counts a value that exists but is not removed.
func (g *runtime) storageDelete(m *ir.Map) {
	fn := asm.FnTaskStorageDelete
	if m.Kind == ir.MapCgroupStorage {
		fn = asm.FnCgrpStorageDelete
	}
	g.storageOwner(m)
	g.mapCall(m, fn)
	gone, busy := g.label(), g.label()
	// ENOENT
	g.emit(asm.LSh.Imm(asm.R0, 32), asm.ArSh.Imm(asm.R0, 32), asm.JEq.Imm(asm.R0, 0, gone),
		asm.JNE.Imm(asm.R0, -2, busy))
	g.Label(gone)
	g.later(busy, func() {
		g.count(check.CntBusy)
		g.jump(gone)
	})
}

// deleteEntry removes the entry whose key is at a place.
func (g *runtime) deleteEntry(m *ir.Map, key loc) {
	if check.Storage(m) {
		g.storageDelete(m)
		return
	}
	g.addr(asm.R2, key)
	g.mapCall(m, asm.FnMapDeleteElem)
}

// storageSet stores the value at a place. A value that the kernel has no memory for, or
// refuses because this CPU is changing the same kind of storage, is counted.
func (g *runtime) storageSet(s *typed.Stmt, value loc) {
	back := g.label()
	if s.Flag == ir.SetUpdate {
		g.storageGet(s.Map, nil, false)
		g.emit(asm.JEq.Imm(asm.R0, 0, back))
	} else {
		lost := g.label()
		g.storageGet(s.Map, &value, true)
		g.emit(asm.JEq.Imm(asm.R0, 0, lost))
		g.later(lost, func() {
			g.count(g.lay.Lost(s.Map))
			g.jump(back)
		})
	}
	if s.Flag != ir.SetCreate {
		g.copyTo(asm.R0, value, s.Map.Value.Size)
	}
	g.Label(back)
}

// storageCreate loads the address of the value into R0. It creates a missing value as zeros;
// if that fails, it counts the loss and jumps to done.
func (g *runtime) storageCreate(m *ir.Map, done string) {
	lost := g.label()
	g.storageGet(m, nil, true)
	g.emit(asm.JEq.Imm(asm.R0, 0, lost))
	g.later(lost, func() {
		g.count(g.lay.Lost(m))
		g.jump(done)
	})
}

// copyTo copies to the address in a register, using R5.
func (g *machine) copyTo(ptr asm.Register, from loc, n int) {
	for i := 0; i < n; {
		s := min(chunk(from.off+i, n-i), chunk(i, n-i))
		g.load(asm.R5, from.at(i), s)
		g.emit(asm.StoreMem(ptr, int16(i), asm.R5, sizeOf(s)))
		i += s
	}
}
