package ir

// MaxPacket is how many bytes of a packet are captured at most, because a record
// of a perf buffer has 64 KiB at most, head included (perf_event_header, size).
const MaxPacket = 65488

// PacketHead is what a record of StmtPacket begins with; the packet's bytes follow.
type PacketHead struct {
	Time          uint64 // CLOCK_MONOTONIC
	Len, Captured uint32
}
