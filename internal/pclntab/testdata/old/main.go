// Program old prints its own call stack, as the runtime names it, and the
// addresses that it consists of. It needs little of the library, so that its
// tables are small.
package main

import "runtime"

//go:noinline
func outer(n int) int { return mid(n) + 1 }

func mid(n int) int { return inner(n) * 3 }

func inner(n int) int {
	if n > 5 {
		return show(n)
	}
	return n
}

//go:noinline
func show(n int) int {
	var pcs [32]uintptr
	k := runtime.Callers(1, pcs[:])
	frames := runtime.CallersFrames(pcs[:k])
	for {
		f, more := frames.Next()
		println(f.Function + " " + f.File + ":" + itoa(f.Line))
		if !more {
			break
		}
	}
	for _, pc := range pcs[:k] {
		println("pc " + hex(pc-1))
	}
	return n
}

func itoa(n int) string { return digits(uintptr(n), 10) }

func hex(n uintptr) string { return digits(n, 16) }

func digits(n, base uintptr) (s string) {
	for ; n > 0; n /= base {
		s = string("0123456789abcdef"[n%base]) + s
	}
	return s
}

func main() { outer(7) }
