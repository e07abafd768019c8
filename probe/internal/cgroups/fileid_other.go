//go:build !linux

package cgroups

import (
	"runtime"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe/env"
)

// ID identifies a file or a namespace.
type ID struct{ Device, Inode uint64 }

// IDOf is only supported on Linux.
func IDOf(e *env.Env, name string) (ID, error) {
	return ID{}, &feature.UnsupportedError{
		Feature: "inode of " + name,
		Hint:    "this is " + runtime.GOOS,
	}
}
