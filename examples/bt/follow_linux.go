package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// notifyUser has a channel get the signals for which scripts may have probes.
func notifyUser(c chan<- os.Signal) { signal.Notify(c, unix.SIGUSR1) }

// follow calls stop when the traced process ends.
func (o *options) follow(ctx context.Context, stop func()) error {
	fd, err := unix.PidfdOpen(o.pid, 0)
	if err != nil {
		return fmt.Errorf("-p %d: %w", o.pid, err)
	}
	process := os.NewFile(uintptr(fd), "pidfd")
	go func() {
		defer process.Close()
		defer stop()
		for ctx.Err() == nil {
			const wait = 200 // ms
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if n, err := unix.Poll(fds, wait); n > 0 || err != nil && err != unix.EINTR {
				return
			}
		}
	}()
	return nil
}
