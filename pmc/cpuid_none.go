//go:build !amd64

package pmc

// RecordCPUID returns the leaves that DecodeCPUID decodes, from the CPU that this goroutine
// runs on. It returns nil on architectures other than amd64.
func RecordCPUID() Leaves { return nil }
