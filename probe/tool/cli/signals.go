package cli

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Main calls work, which is all that a process does, in a goroutine of its own, and returns what
// it returns: the exit status for main. It is the first call in main. Meanwhile the process's first
// thread does nothing, so that Ctrl-C is always heard: that is the thread to which the kernel gives
// a signal (complete_signal, kernel/signal.c), also if it waits for a file system that does not
// answer, and a thread that waits so runs no handler.
func Main(work func() int) int {
	runtime.LockOSThread() // nearly always the first thread, which only now may run other goroutines
	status := make(chan int, 1)
	go func() { status <- work() }()
	return <-status
}

// Context returns a context that ends when the process gets an interrupt (Ctrl-C) or SIGTERM.
// The next one ends the process at once, whatever it waits for, except in the kernel where no
// signal ends a wait. Within a second of the first it does not count, because timeout(1) sends
// its signal twice, to the process and to its group. It is for Main's work, and called once.
func Context() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	return ctx
}
