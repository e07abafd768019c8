//go:build !linux

package testenv

import (
	"errors"
	"os/exec"
	"runtime"
	"testing"
)

var errNotLinux = errors.New("this is " + runtime.GOOS + ", not Linux")

func checkRoot() error { return errNotLinux }

func checkMounts() error { return errNotLinux }

func watch(testing.TB) {}

// openFiles returns nil on systems other than Linux. The check of goroutines remains.
func openFiles() map[string]string { return nil }

func appearedIn(string) string { return "" }

// OwnMounts is only supported on Linux, like Mounts.
func OwnMounts(testing.TB) bool { return false }

// OwnFiles is only supported on Linux.
func OwnFiles(testing.TB, ...string) {}

// MountTracefs is only supported on Linux.
func MountTracefs(testing.TB) {}

// limitMemory does nothing: on other systems no test reads other users' files as root.
func limitMemory(uint64) (was struct{}, err error) { return was, nil }

// LimitMemory is only supported on Linux.
func LimitMemory(testing.TB, uint64) {}

// endWithParent does nothing: on other systems programs end with the test, unless that is
// killed.
func endWithParent(*exec.Cmd) {}
