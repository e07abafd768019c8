// Package rules is what the walker in Go (package stack) and the one in BPF (package
// bpfwalk) share: a file's unwind rules, compiled, and what both know of kernels and
// of Go's runtime.
package rules
