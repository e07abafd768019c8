//go:build !linux

package main

import "errors"

const bareFlag = "-bare"

func onBareMachine([]string) error { return errors.New("only on Linux") }
