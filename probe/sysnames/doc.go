// Package sysnames has the names of numbers in Linux: system calls, by architecture and
// ABI, and errors. A program that counts by number prints by name with it.
//
//	sysnames.Syscall("amd64", sysnames.Native, 257) // "openat"
//	sysnames.Syscall("amd64", sysnames.Compat, 295) // "openat" of a 32-bit program
//	sysnames.Errno(2)                               // "ENOENT"
//
// The tables are part of the package, so that recordings of other machines can be read. They
// are those of Linux 7.0.
package sysnames
