// Package imports puts what bpftrace's scripts import into them: macros, functions, probes and
// C definitions of other files, from file systems that the caller gives.
//
//	dirs := []imports.Dir{{Name: "lib", FS: os.DirFS("lib")}}
//	warnings, err := imports.Load(f, &imports.Options{Dirs: dirs})
//
// It comes first behind syntax.Parse. An import names a script (.bt), a C header (.h), or a
// folder, of which all of these are read. Programs in C, which bpftrace has clang compile, are
// refused.
//
// Up to 100 files of 256 KiB, and 1 MiB in all, are read.
package imports
