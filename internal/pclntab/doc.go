// Package pclntab reads the function table that every Go program contains, even if it is
// stripped: function names, source positions, inlined calls and frame sizes, of Go 1.16 to
// 1.26, in place and without tables of its own. The format is that of runtime/symtab.go and
// cmd/link/internal/ld/pcln.go of each version.
//
// All methods of Table and Func read the file's mapped bytes: the caller must catch faults
// with elffile.Catch. The methods of Table are safe for concurrent use; those of a Func are
// not.
package pclntab
