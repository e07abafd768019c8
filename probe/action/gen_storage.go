package action

import "github.com/cilium/ebpf/asm"

// storageOwner leaves in R2 the object that the map's value belongs to: the
// current task, or its cgroup.
func (g *gen) storageOwner(m *Map) {
	g.call(asm.FnGetCurrentTaskBtf)
	g.emit(asm.Mov.Reg(asm.R2, asm.R0))
	if m.Kind == MapCgroupStorage {
		p := g.c.cgroup
		g.emit(asm.LoadMem(asm.R2, asm.R2, p.set, asm.DWord), asm.LoadMem(asm.R2, asm.R2, p.cgroup, asm.DWord))
	}
}

// storageGet leaves the address of the value in R0, or zero. It makes one if it
// is to and there is none: of the value at a place, or of zeros.
func (g *gen) storageGet(m *Map, value *loc, create bool) {
	fn := asm.FnTaskStorageGet
	if m.Kind == MapCgroupStorage {
		fn = asm.FnCgrpStorageGet
	}
	g.storageOwner(m)
	if value != nil {
		g.addr(asm.R3, *value)
	} else {
		g.emit(asm.Mov.Imm(asm.R3, 0))
	}
	g.emit(asm.Mov.Imm(asm.R4, int32(b2u(create)))) // BPF_LOCAL_STORAGE_GET_F_CREATE
	g.mapCall(m, fn)
}

// storageDelete removes the value. That it stays although it is there is counted.
func (g *gen) storageDelete(m *Map) {
	fn := asm.FnTaskStorageDelete
	if m.Kind == MapCgroupStorage {
		fn = asm.FnCgrpStorageDelete
	}
	g.storageOwner(m)
	g.mapCall(m, fn)
	gone, busy := g.label(), g.label()
	g.emit(asm.LSh.Imm(asm.R0, 32), asm.ArSh.Imm(asm.R0, 32), asm.JEq.Imm(asm.R0, 0, gone), asm.JNE.Imm(asm.R0, -2, busy)) // ENOENT
	g.place(gone)
	g.later(busy, func() {
		g.count(cntBusy)
		g.jump(gone)
	})
}

// deleteEntry removes the entry whose key is at a place.
func (g *gen) deleteEntry(m *Map, key loc) {
	if m.storage() {
		g.storageDelete(m)
		return
	}
	g.addr(asm.R2, key)
	g.mapCall(m, asm.FnMapDeleteElem)
}

// storageSet stores the value at a place. What the kernel has no memory for, or
// refuses because this CPU is changing the same kind of storage, is counted.
func (g *gen) storageSet(s *Stmt, value loc) {
	back := g.label()
	if s.Flag == SetUpdate {
		g.storageGet(s.Map, nil, false)
		g.emit(asm.JEq.Imm(asm.R0, 0, back))
	} else {
		lost := g.label()
		g.storageGet(s.Map, &value, true)
		g.emit(asm.JEq.Imm(asm.R0, 0, lost))
		g.later(lost, func() {
			g.count(g.lay.lost(s.Map))
			g.jump(back)
		})
	}
	if s.Flag != SetCreate {
		g.copyTo(asm.R0, value, s.Map.Value.Size)
	}
	g.place(back)
}

// storageCreate leaves the address of the value in R0, making one of zeros, and
// goes to done where that fails, which is counted.
func (g *gen) storageCreate(m *Map, done string) {
	lost := g.label()
	g.storageGet(m, nil, true)
	g.emit(asm.JEq.Imm(asm.R0, 0, lost))
	g.later(lost, func() {
		g.count(g.lay.lost(m))
		g.jump(done)
	})
}

// copyTo copies to an address in a register, through R5.
func (g *gen) copyTo(ptr asm.Register, from loc, n int) {
	for i := 0; i < n; {
		s := min(chunk(from.off+i, n-i), chunk(i, n-i))
		g.load(asm.R5, from.at(i), s)
		g.emit(asm.StoreMem(ptr, int16(i), asm.R5, sizeOf(s)))
		i += s
	}
}
