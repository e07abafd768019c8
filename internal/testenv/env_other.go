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

// openFiles has no answer off Linux; the check of goroutines remains.
func openFiles() map[string]string { return nil }

func appearedIn(string) string { return "" }

// OwnMounts is for Linux, as Mounts is.
func OwnMounts(testing.TB) bool { return false }

// OwnFiles is for Linux.
func OwnFiles(testing.TB, ...string) {}

// MountTracefs is for Linux.
func MountTracefs(testing.TB) {}

// limitMemory: elsewhere nothing that is tested reads what others wrote as root.
func limitMemory(uint64) (was struct{}, err error) { return was, nil }

// LimitMemory is for Linux.
func LimitMemory(testing.TB, uint64) {}

// endWithParent: elsewhere programs end with the test, if that ends by itself.
func endWithParent(*exec.Cmd) {}
