package ir

import "errors"

var (
	ErrNoProgram = errors.New("no program")
	ErrNoPlan    = errors.New("no plan")
	ErrNoReader  = errors.New("read: no reader")
)
