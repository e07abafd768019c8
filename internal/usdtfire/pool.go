package usdtfire

// The protocol between package static and usdtlink. Both find each other in a
// linked file by marks, because symbols may be stripped.
const (
	// ProbeMark0 and ProbeMark1 begin every static.Probe in a program's data.
	ProbeMark0 = 0x7b9ad2c64f11e0a3
	ProbeMark1 = 0x95e3580d1c7fb642
	// PoolMark0 and PoolMark1 begin the stubs in a program's text, in the place
	// of the first.
	PoolMark0 = 0xd16b3a8e2f5c9047
	PoolMark1 = 0x4e07c2b95a81fd36
	// PoolSize is the number of stubs.
	PoolSize = 255
	// StubSize is the distance of two stubs, and of the first from the mark.
	StubSize = 16
)

// Offsets in a static.Probe on 64-bit machines.
const (
	ProbeSemaphore = 16
	ProbeIndex     = 20
	ProbeName      = 24 // a string: address and length
	ProbeTypes     = 40 // a slice: address, length, capacity
	ProbeSize      = 64
)
