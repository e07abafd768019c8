// Program inline prints its own call stack, as the runtime names it, and the
// addresses that it consists of.
package main

import (
	"fmt"
	"runtime"
)

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
		fmt.Printf("%s %s:%d\n", f.Function, f.File, f.Line)
		if !more {
			break
		}
	}
	for _, pc := range pcs[:k] {
		fmt.Printf("pc %x\n", pc-1)
	}
	return n
}

func main() { outer(7) }
