package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// room says how much may still be written below a directory: "61.2 GiB free".
// A disk that fills up fails whatever runs next, and what filled it is gone
// when anybody looks.
func room(dir string) string {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.1f GiB free", float64(fs.Bavail)*float64(fs.Bsize)/(1<<30))
}
