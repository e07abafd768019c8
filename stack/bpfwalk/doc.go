// Package bpfwalk is the walker of user stacks inside BPF programs: it does the work of
// stack.CFIWalker there.
//
// Walker generates its instructions, and Tables fills the maps that it reads. A program
// calls it once, with a pointer to StateSize bytes of a map value:
//
//	w := bpfwalk.Walker{}
//	insns = append(insns, w.Instructions()...)      // call bpfwalk.WalkFunc
//	for _, m := range bpfwalk.Maps(nil) { … }       // create the maps
//	tables, err := bpfwalk.NewTables(maps, nil)
//	mods, err := cache.Modules(pid)                 // stack.CFICache: at exec, mmap, dlopen
//	err = tables.SetProcess(pid, mods)
//	s := w.Decode(nil, state)
//
// A process that was not added is walked by frame pointers; Stack.Unknown is set then.
//
// Copier and KernelCopier copy registers and stacks instead, to be walked in Go: those of
// the user, and those of the kernel for stack.ORCWalker.
//
// The package loads nothing and holds no resource. The fields of Walker state which kernels
// the generated instructions need. Values are for one goroutine at a time. Measured on the
// development machine (2 cores, shared), a frame costs 200 to 350 ns.
package bpfwalk
