//go:build !unix

package meter

import "time"

// CPU is for Unix: elsewhere it is 0.
func CPU(f func()) time.Duration {
	f()
	return 0
}
