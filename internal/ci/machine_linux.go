package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// room returns the free space below a directory: "61.2 GiB free". A full disk fails any later
// step, and the files that filled it are gone when someone investigates.
func room(dir string) string {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.1f GiB free", float64(fs.Bavail)*float64(fs.Bsize)/(1<<30))
}

// busy returns the CPU time of all commands that have ended, with what they waited for.
func busy() time.Duration {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &ru); err != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
