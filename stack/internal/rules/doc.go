// Package rules contains what the walkers in Go (package stack) and in BPF (package bpfwalk)
// share: a file's compiled unwind rules, and layouts of the kernel and of Go's runtime.
package rules
