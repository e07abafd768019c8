// The Go workload of probe's live tests: goroutines that call a function again
// and again on growing and shrinking stacks, and count the calls. Each line on
// standard input starts a round; the answer is the numbers of calls of Work and
// of grow in it.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

var calls, grown atomic.Int64

// Work returns at several places.
//
//go:noinline
func Work(id, n int) int {
	calls.Add(1)
	switch {
	case n%7 == 0:
		return id
	case n%3 == 0:
		return id + n
	}
	return id * n
}

// grow uses up stack, so that the runtime moves it, with Work at the bottom.
//
//go:noinline
func grow(depth, id, n int) int {
	grown.Add(1)
	var pad [256]byte
	pad[n%256] = byte(n)
	if depth == 0 {
		return Work(id, n) + int(pad[0])
	}
	return grow(depth-1, id, n) + int(pad[1])
}

func round(goroutines, each int) {
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				grow((i*13+g)%60, g, i)
			}
		})
	}
	wg.Wait()
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		each, err := strconv.Atoi(in.Text())
		if err != nil {
			os.Exit(2)
		}
		calls.Store(0)
		grown.Store(0)
		round(100, each)
		fmt.Println(calls.Load(), grown.Load())
	}
}
