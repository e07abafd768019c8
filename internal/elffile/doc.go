// Package elffile reads ELF files in place: it maps the file, checks the headers once, and
// returns sections as slices of the mapping. It checks every offset and size against the
// file's size before use. A malicious file causes an error, but never an allocation out of
// proportion to the file's storage, which does not include holes: see Stored and Bound.
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
// Reading a mapping of a file that was truncated raises SIGBUS. Reading with pread would be
// safe, but costs a system call per name (pread of 128 bytes: 250-350 ns on the development
// machine, while the whole lookup takes 20-50 ns). So functions that read mapped bytes begin
// with
//
//	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
//
// which converts the signal to ErrTruncated, for this goroutine only. The slices that Data and
// Bytes return must not be read outside of such a function, and no string of a mapping may
// leave it: names must be copied. TestTruncatedWhileMapped tests this. If a file cannot be
// mapped (a system without mmap, a reader that is no file), sections are read into memory on
// demand, and the same code runs.
package elffile
