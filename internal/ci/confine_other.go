//go:build !linux

package main

import (
	"errors"
	"os/exec"
	"time"
)

const confineFlag = "-confined"

// confinement does nothing: on other systems no test changes the kernel.
type confinement struct{}

func confine(string, time.Duration, []string) (*confinement, error) { return &confinement{}, nil }

func (*confinement) wrap(*exec.Cmd) error { return nil }

func (*confinement) end() error { return nil }

func confined([]string) (int, error) { return 0, errors.New("only on Linux") }
