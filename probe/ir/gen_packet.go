package ir

// PacketHead is what a record of a Packets begins with; the packet's bytes follow.
type PacketHead struct {
	Time          uint64 // CLOCK_MONOTONIC
	Len, Captured uint32
}

// Where a head has the captured length, and its size.
const (
	PacketCaptured = 12
	PacketHeadSize = 16
)
