package feature

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openPerf opens an event for a moment, for the calling thread on any CPU.
func openPerf(attr *unix.PerfEventAttr) error {
	attr.Size = uint32(unsafe.Sizeof(*attr))
	fd, err := unix.PerfEventOpen(attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func probePerf(f Feature) error {
	err := openPerf(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Bits: unix.PerfBitDisabled, Sample: 1_000_000_000,
	})
	if oneOf(err, unix.ENOENT) {
		return absent(f, "", err)
	}
	if err != nil {
		return err
	}
	fd, _, err := load(prog{typ: unix.BPF_PROG_TYPE_PERF_EVENT})
	if err != nil {
		return unknownAttachType(f, err)
	}
	return unix.Close(fd)
}

const noPMU = "this machine has no hardware PMU (a virtual machine without one, most often)"

// probeHardwarePMU leaves the kernel's own cycles out, so that it needs no
// capability where perf_event_paranoid allows users to count their own.
func probeHardwarePMU(f Feature) error {
	err := openPerf(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CPU_CYCLES,
		Bits: unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	})
	if oneOf(err, unix.ENOENT, unix.ENODEV, unix.EOPNOTSUPP) {
		return absent(f, noPMU, err)
	}
	return err
}

func probeBranchStack(f Feature) error {
	if err := probeHardwarePMU(f); err != nil {
		return err
	}
	err := openPerf(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CPU_CYCLES,
		Bits:   unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
		Sample: 1_000_000_000, Sample_type: unix.PERF_SAMPLE_BRANCH_STACK,
		Branch_sample_type: unix.PERF_SAMPLE_BRANCH_USER | unix.PERF_SAMPLE_BRANCH_ANY,
	})
	if oneOf(err, unix.ENOENT, unix.EOPNOTSUPP, unix.EINVAL) {
		return absent(f, "the CPU's PMU records no branches (LBR, BRS or BRBE)", err)
	}
	return err
}

// breakpointWrite is HW_BREAKPOINT_W (include/uapi/linux/hw_breakpoint.h).
const breakpointWrite = 2

// probeWatchpoint watches a variable of its own, in user space only, which
// needs no capability.
func probeWatchpoint(f Feature) error {
	watched := new(uint64)
	err := openPerf(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_BREAKPOINT, Bp_type: breakpointWrite,
		Ext1: uint64(uintptr(unsafe.Pointer(watched))), Ext2: 8,
		Bits: unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	})
	runtime.KeepAlive(watched)
	switch {
	case oneOf(err, unix.ENOSPC): // all taken: so they are there
		return nil
	case oneOf(err, unix.ENOENT, unix.ENODEV, unix.EOPNOTSUPP):
		return absent(f, "", err)
	}
	return err
}

// probeKprobe opens a disabled kprobe through the PMU: the kernel looks the
// function up and registers the probe, but arms nothing.
func probeKprobe(f Feature) error {
	const sysfs = "/sys/bus/event_source/devices/kprobe/type"
	b, err := os.ReadFile(sysfs)
	if err != nil {
		return pmuProbe("kprobe", "")(f)
	}
	typ, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return err
	}
	fn := cstring("vfs_read")
	var pin runtime.Pinner
	defer pin.Unpin()
	err = openPerf(&unix.PerfEventAttr{
		Type: uint32(typ), Ext1: ptr(&pin, &fn[0]), Bits: unix.PerfBitDisabled,
	})
	if oneOf(err, unix.ENOENT, unix.EOPNOTSUPP, unix.EINVAL) {
		return absent(f, "", err)
	}
	return err
}
