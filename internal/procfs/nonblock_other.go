//go:build !unix

package procfs

const nonblock = 0
