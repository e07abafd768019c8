package main

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// handMaps are the maps of the hand-written programs.
func handMaps() map[string]*ebpf.MapSpec {
	return map[string]*ebpf.MapSpec{
		"by_comm":   {Type: ebpf.PerCPUHash, KeySize: 16, ValueSize: 8, MaxEntries: 4096},
		"by_parent": {Type: ebpf.PerCPUHash, KeySize: 4, ValueSize: 8, MaxEntries: 4096},
		"start":     {Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 4096},
		"hist":      {Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 65},
		"stacks":    {Type: ebpf.StackTrace, KeySize: 4, ValueSize: 1016, MaxEntries: 4096},
		"by_stack":  {Type: ebpf.PerCPUHash, KeySize: 4, ValueSize: 8, MaxEntries: 4096},
	}
}

// exit ends a program.
var exit = asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"), asm.Return()}

// addOne adds one to the entry whose key is on the stack, at offset key from the frame
// pointer.
func addOne(name string, key int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, key),
		asm.LoadMapPtr(asm.R1, 0).WithReference(name),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "miss"),
		asm.Mov.Imm(asm.R1, 1), asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Ja.Label("exit"),
		asm.Mov.Imm(asm.R1, 1).WithSymbol("miss"),
		asm.StoreMem(asm.RFP, -64, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, 0).WithReference(name),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, key),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, -64),
		asm.Mov.Imm(asm.R4, 1),
		asm.FnMapUpdateElem.Call(),
	}
}

func handComm() asm.Instructions {
	ins := asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -16),
		asm.Mov.Imm(asm.R2, 16),
		asm.FnGetCurrentComm.Call(),
	}
	return append(append(ins, addOne("by_comm", -16)...), exit...)
}

// handFields counts by current->real_parent->tgid, at the offsets that a person would look
// up.
func handFields() (asm.Instructions, error) {
	parent, err := taskOffset("real_parent")
	if err != nil {
		return nil, err
	}
	tgid, err := taskOffset("tgid")
	if err != nil {
		return nil, err
	}
	ins := asm.Instructions{
		asm.FnGetCurrentTask.Call(),
		asm.Mov.Reg(asm.R3, asm.R0), asm.Add.Imm(asm.R3, parent),
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -16),
		asm.Mov.Imm(asm.R2, 8),
		asm.FnProbeReadKernel.Call(),
		asm.LoadMem(asm.R3, asm.RFP, -16, asm.DWord), asm.Add.Imm(asm.R3, tgid),
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -8),
		asm.Mov.Imm(asm.R2, 4),
		asm.FnProbeReadKernel.Call(),
	}
	return append(append(ins, addOne("by_parent", -8)...), exit...), nil
}

// taskOffset returns the offset of a member of struct task_struct in bytes.
func taskOffset(member string) (int32, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return 0, err
	}
	var task *btf.Struct
	if err := spec.TypeByName("task_struct", &task); err != nil {
		return 0, err
	}
	for _, m := range task.Members {
		if m.Name == member {
			return int32(m.Offset.Bytes()), nil
		}
	}
	return 0, fmt.Errorf("task_struct has no %s", member)
}

func handStack() asm.Instructions {
	ins := asm.Instructions{
		asm.LoadMapPtr(asm.R2, 0).WithReference("stacks"),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnGetStackid.Call(),
		asm.StoreMem(asm.RFP, -8, asm.R0, asm.Word),
	}
	return append(append(ins, addOne("by_stack", -8)...), exit...)
}

func handEnter() asm.Instructions {
	ins := asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.RFP, -4, asm.R0, asm.Word),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, -16, asm.R0, asm.DWord),
		asm.LoadMapPtr(asm.R1, 0).WithReference("start"),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, -16),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
	}
	return append(ins, exit...)
}

func handLeave() asm.Instructions {
	ins := asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.RFP, -4, asm.R0, asm.Word),
		asm.LoadMapPtr(asm.R1, 0).WithReference("start"),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.LoadMem(asm.R6, asm.R0, 0, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.Sub.Reg(asm.R0, asm.R6),
		asm.Mov.Reg(asm.R6, asm.R0),
		asm.LoadMapPtr(asm.R1, 0).WithReference("start"),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
		asm.FnMapDeleteElem.Call(),
		asm.Mov.Imm(asm.R7, 0),
		asm.JSLE.Imm(asm.R6, 0, "store"),
	}
	for h := int32(5); h >= 0; h-- {
		ins = append(ins,
			asm.LoadImm(asm.R1, 1<<(1<<h)-1, asm.DWord), asm.Sub.Reg(asm.R1, asm.R6),
			asm.RSh.Imm(asm.R1, 63), asm.LSh.Imm(asm.R1, h),
			asm.RSh.Reg(asm.R6, asm.R1), asm.Add.Reg(asm.R7, asm.R1))
	}
	ins = append(ins,
		asm.Add.Imm(asm.R7, 1),
		asm.StoreMem(asm.RFP, -8, asm.R7, asm.Word).WithSymbol("store"),
		asm.LoadMapPtr(asm.R1, 0).WithReference("hist"),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -8),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.Mov.Imm(asm.R1, 1), asm.StoreXAdd(asm.R0, asm.R1, asm.DWord))
	return append(ins, exit...)
}

// handSpec returns a collection of the hand-written programs of one action.
func handSpec(action string) (*ebpf.CollectionSpec, error) {
	progs := map[string]asm.Instructions{
		"empty": exit, "comm": handComm(), "stack": handStack(), "enter": handEnter(),
		"leave": handLeave(),
	}
	if action == "fields" {
		var err error
		if progs["fields"], err = handFields(); err != nil {
			return nil, err
		}
	}
	spec := &ebpf.CollectionSpec{
		Maps:     map[string]*ebpf.MapSpec{},
		Programs: map[string]*ebpf.ProgramSpec{},
	}
	for _, n := range programsOf(action) {
		spec.Programs[n] = &ebpf.ProgramSpec{
			Name: n, Type: ebpf.RawTracepoint, License: "Dual MIT/GPL",
			Instructions: append(asm.Instructions(nil), progs[n]...),
		}
		if action == "tpstack" {
			spec.Programs[n].Type = ebpf.TracePoint
		}
	}
	all := handMaps()
	for _, p := range spec.Programs {
		for i := range p.Instructions {
			if m, ok := all[p.Instructions[i].Reference()]; ok {
				m.Name = p.Instructions[i].Reference()
				spec.Maps[m.Name] = m
			}
		}
	}
	return spec, nil
}

// programsOf returns the names of an action's programs.
func programsOf(action string) []string {
	switch action {
	case "latency":
		return []string{"enter", "leave"}
	case "tpstack":
		return []string{"stack"}
	}
	return []string{action}
}

// attachHand attaches the hand-written programs of an action.
func attachHand(action string) (func(), error) {
	spec, err := handSpec(action)
	if err != nil {
		return nil, err
	}
	return attachSpec(spec, action)
}

// attachSpec loads the programs of an action, and attaches them to sys_enter, or to sys_exit
// if the program is leave.
func attachSpec(spec *ebpf.CollectionSpec, action string) (func(), error) {
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, err
	}
	var links []link.Link
	stop := func() {
		for _, l := range links {
			l.Close()
		}
		coll.Close()
	}
	for _, n := range programsOf(action) {
		tp := "sys_enter"
		if n == "leave" {
			tp = "sys_exit"
		}
		var l link.Link
		if action == "tpstack" {
			l, err = link.Tracepoint("raw_syscalls", tp, coll.Programs[n], nil)
		} else {
			l, err = link.AttachRawTracepoint(link.RawTracepointOptions{Name: tp, Program: coll.Programs[n]})
		}
		if err != nil {
			stop()
			return nil, err
		}
		links = append(links, l)
	}
	return stop, nil
}
