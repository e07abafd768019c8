package elffile

import (
	"errors"
	"runtime"
	"runtime/debug"
)

// ErrTruncated is the error for a mapped file that lost pages while they were read: the file
// was truncated, or its device failed.
var ErrTruncated = errors.New("file was truncated while it was read")

// Catch is deferred by functions that read mapped bytes. It restores the goroutine's previous
// fault behaviour (the result of debug.SetPanicOnFault) and converts a memory fault to
// ErrTruncated in *err. It panics again with any other panic. It must be deferred directly:
//
//	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
func Catch(old bool, err *error) {
	debug.SetPanicOnFault(old)
	r := recover()
	if r == nil {
		return
	}
	// A fault that the runtime recovered has an address of its own. Nil dereferences and index
	// errors do not; they are bugs, which must remain visible.
	if f, ok := r.(interface{ Addr() uintptr }); ok {
		if _, ok := r.(runtime.Error); ok && f.Addr() >= 4096 {
			*err = ErrTruncated
			return
		}
	}
	panic(r)
}
