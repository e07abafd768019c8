//go:build !linux

package pmc

import "github.com/borescope/borescope/internal/perfring"

// The functions in this file are never called: see available.

const (
	iocEnable = iota
	iocDisable
	iocID
	iocSetBPF
	iocSetFilter
	iocGroup
)

func perfEventOpen(*perfring.Attr, Place, int) (int, error) { return -1, available() }

func closeEvent(int) {}

func ioctl(int, uint, uintptr) error { return available() }

func readEvent(int, []byte) (int, error) { return 0, available() }

func mapPage(int) ([]byte, error) { return nil, available() }

func unmapPage([]byte) error { return nil }

type waiter struct{}

func newWaiter([]*Handle) (*waiter, error) { return nil, available() }

func (*waiter) wait([]bool) error { return available() }

func (*waiter) wakeUp() {}

func (*waiter) close() error { return nil }
