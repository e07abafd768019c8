package kernel

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BPFOutput configures OpenBPFOutput.
type BPFOutput struct {
	// WakeupBytes or WakeupEvents is the amount that wakes the reader. If both are 0, every
	// event does.
	WakeupBytes, WakeupEvents int
	// Timed makes records begin with their time, of CLOCK_MONOTONIC.
	Timed bool
}

// formatLost is PERF_FORMAT_LOST (Linux 6.0).
const formatLost = 1 << 4

// OpenBPFOutput opens the event behind bpf_perf_event_output for a CPU, not yet enabled.
// counts reports whether reading the descriptor returns the number of lost records.
func OpenBPFOutput(cpu int, o BPFOutput) (fd int, counts bool, err error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_BPF_OUTPUT, Sample: 1,
		Sample_type: unix.PERF_SAMPLE_RAW, Read_format: formatLost,
		Wakeup: uint32(max(o.WakeupEvents, 1)),
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	if o.WakeupBytes > 0 {
		attr.Bits |= unix.PerfBitWatermark
		attr.Wakeup = uint32(o.WakeupBytes)
	}
	if o.Timed {
		attr.Sample_type |= unix.PERF_SAMPLE_TIME
		attr.Bits |= unix.PerfBitUseClockID
		attr.Clockid = unix.CLOCK_MONOTONIC
	}
	counts = true
	fd, err = unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if errors.Is(err, unix.EINVAL) {
		attr.Read_format, counts = 0, false
		fd, err = unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	}
	return fd, counts, os.NewSyscallError("perf_event_open", err)
}
