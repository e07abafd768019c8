//go:build !amd64

package pmc

// recordCPUID asks the CPU for the leaves that decodeCPUID reads; nil on other
// architectures than amd64.
func recordCPUID() leaves { return nil }
