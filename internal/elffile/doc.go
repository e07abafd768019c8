// Package elffile reads ELF files in place: the file is mapped, headers are
// checked once, and sections are handed out as slices of the mapping. Every
// offset and size is bounded by the file's size before it is used, so that a
// hostile file yields an error and never an allocation out of proportion to the
// storage that it takes up, which holes do not: see Stored and Bound.
//
//	f, err := elffile.Open("/usr/bin/node")
//	if err != nil {
//		return err
//	}
//	defer f.Close()
//	syms, err := f.Data(f.Section(".symtab"))
//
// # Truncation
//
// A mapping of a file that somebody truncates raises SIGBUS when it is read.
// Reading by pread instead would be safe, but costs a system call per name
// (pread 128 bytes: 250-350 ns on the development machine, next to 20-50 ns for
// the whole lookup). So mapped bytes are read by functions that begin with
//
//	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
//
// which turns the signal into ErrTruncated for this goroutine alone. The slices
// that Data and Bytes return must not be read outside such a function, and no
// string of a mapping may leave it: names are copied. TestTruncatedWhileMapped
// proves it. Where a file cannot be mapped (a system without mmap, a reader that
// is no file) sections are read into memory when asked for, and the same code runs.
package elffile
