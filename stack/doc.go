// Package stack walks stacks.
//
// Walkers are pure functions over Regs and Memory: they run the same over a
// live process, a core file or a recorded sample. Every stack says why it ends
// and every frame how it was found.
//
//	var w stack.FPWalker
//	var frames [stack.MaxFrames]stack.Frame
//	n, end := w.Walk(frames[:], &regs, mem)
//	if end != stack.EndBottom {
//		truncated++
//	}
//
// Go programs, stripped ones too, are walked by the frame sizes in their function
// table, across the runtime's changes to the thread's own stack: systemstack, the
// growth of a goroutine's stack, calls of the vDSO.
//
// There are walkers by frame pointer (FPWalker), by call frame information with
// frame pointers in between (CFIWalker: programs built without frame pointers,
// as distributions' are), and by the kernel's ORC tables (ORCWalker). They take
// live processes (ProcessMemory, CFICache), core files (Core) and perf.data files
// (package perfdata) alike.
//
// Python reads the interpreted frames of CPython 3.11 to 3.13 out of the same
// memory, and MergeInterpreted puts them among the native frames that ran them.
//
// # Inside BPF
//
// BPFWalker generates the instructions of a walker that does the work of
// CFIWalker inside a BPF program, and BPFTables fills the maps it reads. A
// program calls it once, with a pointer to StateSize bytes of a map value:
//
//	w := stack.BPFWalker{}
//	insns = append(insns, w.Instructions()...)      // call stack.BPFWalkFunc
//	for _, m := range stack.BPFMaps(nil) { … }      // create the maps
//	tables, err := stack.NewBPFTables(maps, nil)
//	mods, err := cache.Modules(pid)                 // at exec, mmap, dlopen
//	err = tables.SetProcess(pid, mods)
//	s := w.Decode(nil, state)
//
// A process that was not added is walked by frame pointers, and says so.
//
// BPFCopier and BPFKernelCopier copy registers and stacks instead, to be walked
// in Go: the user's, and the kernel's for ORCWalker.
//
// # Lifetime, privileges, overhead
//
// Frames are addresses: package symbol looks names up, and package profile (below this
// one) adds stacks up and draws them. The package starts no goroutine and keeps no
// state; only a Core that opened a file has to be closed. Unless a type says otherwise,
// values are for one goroutine at a time and functions are safe for concurrent use. Recorded stacks need no privileges and no Linux; another
// process's memory needs ptrace read permission.
//
// Walkers allocate nothing. Measured on the development machine (2 cores, shared):
// a frame costs 7 ns by frame pointer, 33 ns by call frame information, 200 to
// 350 ns inside BPF; compiling call frame information runs at 12 million rows a
// second and takes 5 bytes a row, rules included (libc: 24,000 rows).
package stack
