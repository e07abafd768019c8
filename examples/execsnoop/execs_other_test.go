//go:build !linux

package main

var execs map[string]func()
