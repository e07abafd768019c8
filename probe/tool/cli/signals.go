package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Context returns a context that ends when the process gets an interrupt (Ctrl-C) or SIGTERM.
// The next one ends the process at once, whatever it waits for: the kernel does it, and no
// goroutine has to run. Within a second of the first it does not count, because timeout(1)
// sends its signal twice, to the process and to its group. It is for main, and called once.
func Context() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	return ctx
}
