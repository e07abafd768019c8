//go:build !amd64

package pmc

// RecordCPUID asks the CPU for the leaves that DecodeCPUID reads; nil on other
// architectures than amd64.
func RecordCPUID() Leaves { return nil }
