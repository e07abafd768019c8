//go:build !linux

package main

import (
	"context"
	"errors"
)

// follow fails: programs run on Linux.
func (o *options) follow(context.Context, func()) error { return errors.ErrUnsupported }
