package feature

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openPerf opens an event for the calling thread on any CPU.
func openPerf(attr *unix.PerfEventAttr) (int, error) {
	attr.Size = uint32(unsafe.Sizeof(*attr))
	return unix.PerfEventOpen(attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
}

// tryPerf opens an event and closes it.
func tryPerf(attr *unix.PerfEventAttr) error {
	fd, err := openPerf(attr)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// countWork opens an event for the calling thread and runs work. It returns the event's count
// and the nanoseconds for which it was counting.
func countWork(attr *unix.PerfEventAttr, work func()) (count, running uint64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr.Read_format = unix.PERF_FORMAT_TOTAL_TIME_RUNNING
	fd, err := openPerf(attr)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(fd)
	work()
	var b [16]byte
	n, err := unix.Read(fd, b[:])
	if err == nil && n != len(b) {
		err = fmt.Errorf("%d bytes of an event's count", n)
	}
	return binary.NativeEndian.Uint64(b[:]), binary.NativeEndian.Uint64(b[8:]), err
}

func probePerf(f Feature) error {
	err := tryPerf(&unix.PerfEventAttr{
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

const (
	noPMU = "this machine has no hardware PMU (a virtual machine without one, most often)"
	// A hypervisor may let the guest program registers that have no effect.
	deafPMU = "this machine's hypervisor accepts hardware counters and counts nothing (0 cycles while a thread was busy): " +
		"use cpu-clock, or have it pass the PMU on"
	deafBreakpoints = "this machine's hypervisor accepts hardware breakpoints and never delivers them " +
		"(a watched word was written, and 0 hits were counted): watch on the host, or in a virtual machine that passes debug exceptions on"
)

// probeHardwarePMU counts the cycles of some work. It excludes the kernel's cycles, so it
// needs no capability if perf_event_paranoid allows users to count their own. If other events
// hold the counter, so that this one never ran, the feature still counts as supported.
func probeHardwarePMU(f Feature) error {
	cycles, running, err := countWork(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CPU_CYCLES,
		Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}, busy)
	switch {
	case oneOf(err, unix.ENOENT, unix.ENODEV, unix.EOPNOTSUPP):
		return absent(f, noPMU, err)
	case err != nil:
		return err
	case cycles == 0 && running > 0:
		return absent(f, deafPMU, nil)
	}
	return nil
}

// busy runs for about ten thousand cycles.
func busy() {
	var n atomic.Uint32
	for n.Add(1) < 1000 {
	}
}

func probeBranchStack(f Feature) error {
	if err := probeHardwarePMU(f); err != nil {
		return err
	}
	err := tryPerf(&unix.PerfEventAttr{
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

// probeWatchpoint watches a word of its own, in user space only, which needs no capability,
// and writes it once. Opening the event is not enough: some hypervisors accept the debug
// registers' values and deliver no exception.
func probeWatchpoint(f Feature) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	watched := new(atomic.Uint64)
	hits, _, err := countWork(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_BREAKPOINT, Bp_type: breakpointWrite,
		Ext1: ptr(&pin, watched), Ext2: 8,
		Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}, func() { watched.Store(1) })
	switch {
	case oneOf(err, unix.ENOSPC):
		return &UnknownError{
			f.String(),
			"all hardware breakpoints are taken (a debugger may hold them), so none could be tried", err,
		}
	case oneOf(err, unix.ENOENT, unix.ENODEV, unix.EOPNOTSUPP):
		return absent(f, "", err)
	case err != nil:
		return err
	case hits == 0:
		return absent(f, deafBreakpoints, nil)
	}
	return nil
}

// probeKprobe opens a disabled kprobe through the PMU. The kernel looks up the function and
// registers the probe, but does not arm it.
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
	err = tryPerf(&unix.PerfEventAttr{
		Type: uint32(typ), Ext1: ptr(&pin, &fn[0]), Bits: unix.PerfBitDisabled,
	})
	if oneOf(err, unix.ENOENT, unix.EOPNOTSUPP, unix.EINVAL) {
		return absent(f, "", err)
	}
	return err
}
