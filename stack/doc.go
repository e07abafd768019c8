// Package stack walks stacks.
//
// Walkers are pure functions over Regs and Memory: they work in the same way on a live
// process, a core file and a recorded sample. Every stack has the reason for its end, and
// every frame has the way it was found.
//
//	var w stack.FPWalker
//	var frames [stack.MaxFrames]stack.Frame
//	n, end := w.Walk(frames[:], &regs, mem)
//	if end != stack.StopBottom {
//		truncated++
//	}
//
// Go programs, stripped ones too, are walked by the frame sizes in their function table.
// Walks cross the runtime's changes to the thread's own stack: systemstack, the growth of a
// goroutine's stack, calls of the vDSO.
//
// 32-bit programs on a 64-bit kernel are walked if they are of i386 (Regs.Machine says which registers these
// are), and Go's but from the thread's own stack. Those of arm have their innermost frame: StopCompat.
//
// There are walkers by frame pointer (FPWalker), by call frame information with frame
// pointers in between (CFIWalker, for programs built without frame pointers, as
// distributions' are), and by the kernel's ORC tables (ORCWalker). All take live processes
// (ProcessMemory, CFICache), core files (package core) and perf.data files (package
// perfdata). Package python reads the interpreted frames of CPython from the same memory,
// and package bpfwalk is the walker by call frame information inside BPF programs.
//
// # Lifetime, privileges, overhead
//
// Frames are addresses: package symbol looks names up, and package profile (below this one)
// adds stacks up and draws them. The package starts no goroutine and keeps no state. Unless
// a type says otherwise, values are for one goroutine at a time and functions are safe for
// concurrent use. Recorded stacks need no privileges and no Linux; another process's memory
// needs ptrace read permission.
//
// Walkers allocate nothing. Measured on the development machine (2 cores, shared), a frame
// costs 7 ns by frame pointer and 33 ns by call frame information. Compiling call frame
// information runs at 12 million rows a second and takes 5 bytes a row, rules included
// (libc: 24,000 rows).
package stack
