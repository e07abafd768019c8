//go:build !linux

package probe

func raiseMemlock() error { return nil }
