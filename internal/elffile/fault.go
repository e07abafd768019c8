package elffile

import (
	"errors"
	"runtime"
	"runtime/debug"
)

// ErrTruncated says that a mapped file lost the pages that were being read:
// somebody truncated it, or its device failed.
var ErrTruncated = errors.New("file was truncated while it was read")

// Catch ends a function that reads mapped bytes. It restores the goroutine's
// previous fault behaviour (the result of debug.SetPanicOnFault) and turns a
// memory fault into ErrTruncated in *err; every other panic goes on. It must be
// deferred directly:
//
//	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
func Catch(old bool, err *error) {
	debug.SetPanicOnFault(old)
	r := recover()
	if r == nil {
		return
	}
	// A fault that the runtime recovered carries its address; nil dereferences
	// and index errors do not, and those are bugs that must stay visible.
	if f, ok := r.(interface{ Addr() uintptr }); ok {
		if _, ok := r.(runtime.Error); ok && f.Addr() >= 4096 {
			*err = ErrTruncated
			return
		}
	}
	panic(r)
}
