// Package sysnames has the names of what Linux numbers: system calls, by
// architecture, and errors. What a program counts by number it prints by name.
//
//	sysnames.Syscall("amd64", 257) // "openat"
//	sysnames.Errno(2)              // "ENOENT"
//
// The tables are part of the package: a recording of another machine is read with
// them too. They are those of Linux 7.0.
package sysnames
