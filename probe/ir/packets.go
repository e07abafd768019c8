package ir

// MaxPacket is the maximum number of bytes captured of a packet. A record of a perf buffer
// has at most 64 KiB, head included (perf_event_header, size).
const MaxPacket = 65488

// PacketHead is the head of a record of StmtPacket; the packet's bytes follow it.
type PacketHead struct {
	Time          uint64 // CLOCK_MONOTONIC, nanoseconds
	Len, Captured uint32
}
