// Package imports loads the imports of bpftrace's scripts: macros, functions, probes and C
// definitions in other files, from file systems that the caller provides.
//
//	dirs := []imports.Dir{{Name: "lib", FS: os.DirFS("lib")}}
//	warnings, err := imports.Load(f, &imports.Options{Dirs: dirs})
//
// Call Load directly after syntax.Parse. An import names a script (.bt), a C header (.h), or
// a folder; Load reads all scripts and headers in it. Programs in C, which bpftrace compiles
// with clang, are refused.
//
// Load reads up to 100 files of up to 256 KiB each, and 1 MiB and 25,000
// nodes in all.
package imports
