package pmc

import "github.com/borescope/borescope/internal/cpus"

// ParseCPUs parses a list of CPUs as the kernel and perf -C write it, "0-3,5". It returns
// ascending numbers.
func ParseCPUs(list string) ([]int, error) { return cpus.Parse(list) }
