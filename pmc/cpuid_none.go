//go:build !amd64

package pmc

// recordCPUID returns the leaves that decodeCPUID reads, nil on other architectures than amd64.
func recordCPUID() leaves { return nil }
