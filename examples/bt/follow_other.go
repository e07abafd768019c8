//go:build !linux

package main

import (
	"context"
	"errors"
	"os"
)

// notifyUser does nothing: programs run on Linux.
func notifyUser(chan<- os.Signal) {}

// follow fails: programs run on Linux.
func (o *options) follow(context.Context, func()) error { return errors.ErrUnsupported }
