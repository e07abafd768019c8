package ir

// MaxPacket is how many bytes of a packet are captured at most, because a record
// of a perf buffer has 64 KiB at most, head included (perf_event_header, size).
const MaxPacket = 65488
