package usdtfire

// These define the protocol between package static and usdtlink. Each finds the other's data
// in a linked file by marks, because symbols may be stripped.
const (
	// ProbeMark0 and ProbeMark1 are at the start of every static.Probe in a program's data.
	ProbeMark0 = 0x7b9ad2c64f11e0a3
	ProbeMark1 = 0x95e3580d1c7fb642
	// PoolMark0 and PoolMark1 are at the start of the stubs in a program's text, in place of
	// the first one.
	PoolMark0 = 0xd16b3a8e2f5c9047
	PoolMark1 = 0x4e07c2b95a81fd36
	// PoolSize is the number of stubs.
	PoolSize = 255
	// StubSize is the distance between two stubs, and from the mark to the first stub, in
	// bytes.
	StubSize = 16
)

// These are offsets in a static.Probe on 64-bit machines.
const (
	ProbeSemaphore = 16
	ProbeIndex     = 20
	ProbeName      = 24 // a string: address and length
	ProbeTypes     = 40 // a slice: address, length, capacity
	ProbeSize      = 64
)
