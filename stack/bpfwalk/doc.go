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
// A process that was not added is walked by frame pointers, from a function's entry (Walker.Entry) by
// its return address; Stack.Unknown is set then.
//
// # What is left out
//
// The program takes the rules that stack.CFIWalker takes: the frame of any register, return
// addresses in registers, and registers that are saved on the stack, in others, or computed. A
// test walks the same registers and stacks from every rule of several files with both. These
// are left out, with their share of the 1,950,737 rows of twenty files (programs, C and C++
// libraries, cryptography, an interpreter with a compiler; TestLeftOut prints each file's):
//
//   - DWARF expressions, but for those that compilers, linkers and OpenSSL write for the CFA,
//     and places that are no multiple of 8 bytes away, or more than 256 KiB: no row.
//   - What a rule restores besides seven registers: 5 rows, as in setcontext.
//   - Registers that a function need not keep, and that it restores all the same: 189 rows
//     (0.01 %), of thread-local storage and assembly. Callers hardly count from them.
//   - Registers other than the frame pointer that would add more than 2 % to a file's rows.
//     Tables have 1.05 % more rows on average than without any. Of node, which Clang compiled
//     with frame pointers, they would have a third more, and its callers' are not known.
//   - The caller of a null pointer.
//   - 32-bit programs (stack.StopCompat).
//
// A stack ends with stack.StopLeftOut at such a rule, and where a rule counts from a register
// that functions keep and that is not known. profile.Profile.LeftOut counts these by file.
//
// # Copying instead
//
// Copier and KernelCopier copy registers and stacks instead, to be walked in Go: those of
// the user, and those of the kernel for stack.ORCWalker.
//
// The package loads nothing and holds no resource. The fields of Walker state which kernels
// the generated instructions need. Values are for one goroutine at a time. Measured on the
// development machine (2 cores, shared), a frame of a program that stays on its CPU costs some
// 70 ns: the program keeps where it found the rows of the last stacks. Where hundreds of
// processes take turns, nothing of it is in the caches, and a frame costs several times that.
package bpfwalk
