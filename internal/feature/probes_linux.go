package feature

import (
	"errors"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/rawbtf"
)

// These are not in golang.org/x/sys/unix (include/uapi/linux/bpf.h).
const (
	traceKprobeSession = 56
	traceUprobeSession = 57
	traceFsession      = 58
	traceFentryMulti   = 59

	flagSleepable = 1 << 4 // BPF_F_SLEEPABLE

	// enotsupp is the kernel-internal "operation is not supported", which bpf(2) also returns
	// to user space (include/linux/errno.h).
	enotsupp = unix.Errno(524)
)

// probes test the features. They return nil, the result of absent or denied, or any other
// error, which means that the test was not conclusive.
var probes = [count]func(Feature) error{
	BTF:                 probeBTF,
	Tracepoint:          pmuProbe("tracepoint", ""),
	RawTracepoint:       probeRawTracepoint,
	RawTracepointCookie: probeRawTracepointCookie,
	Perf:                probePerf,
	HardwarePMU:         probeHardwarePMU,
	BranchStack:         probeBranchStack,
	Watchpoint:          probeWatchpoint,
	Kprobe:              probeKprobe,
	KprobeMulti:         kprobeMultiProbe(unix.BPF_TRACE_KPROBE_MULTI),
	KprobeSession:       kprobeMultiProbe(traceKprobeSession),
	Uprobe:              pmuProbe("uprobe", ""),
	UprobeRefCtr:        pmuProbe("uprobe", "ref_ctr_offset"),
	UprobeMulti:         uprobeMultiProbe(unix.BPF_TRACE_UPROBE_MULTI),
	UprobeSession:       uprobeMultiProbe(traceUprobeSession),
	SleepableUprobe:     sleepableProbe(unix.BPF_PROG_TYPE_KPROBE),
	SleepableTracepoint: sleepableProbe(unix.BPF_PROG_TYPE_TRACEPOINT),
	PerfLink:            probePerfLink,
	Fentry:              trampolineProbe(unix.BPF_TRACE_FENTRY),
	Fexit:               trampolineProbe(unix.BPF_TRACE_FEXIT),
	TPBTF:               probeTPBTF,
	Fsession:            trampolineProbe(traceFsession),
	TracingMulti:        probeTracingMulti,
	Iter:                probeIter,
	LSM:                 probeLSM,
	SyscallProg:         sleepableProbe(unix.BPF_PROG_TYPE_SYSCALL),
	TestRunRawTP:        probeTestRun,
	Token:               probeToken,
	Ringbuf:             probeRingbuf,
	BatchOps:            batchProbe(unix.BPF_MAP_TYPE_HASH, unix.BPF_MAP_UPDATE_BATCH),
	BatchPerCPUArray:    batchProbe(unix.BPF_MAP_TYPE_PERCPU_ARRAY, unix.BPF_MAP_LOOKUP_BATCH),
	AttachCookie:        helperProbe(174),
	GetFuncIP:           helperProbe(173),
	BPFLoop:             helperProbe(181),
	ForEachMapElem:      helperProbe(164),
	TaskBTF:             helperProbe(158),
	TaskPtRegs:          helperProbe(175),
	FindVMA:             helperProbe(180),
	Strncmp:             helperProbe(182),
	SnprintfBTF:         helperProbe(149),
	PerCPUMapLookup:     helperProbe(195),
	KtimeTAI:            helperProbe(208),
	BranchSnapshot:      helperProbe(176),
}

// test runs a probe and converts its result to one of the three outcomes.
func test(f Feature) error {
	err := probes[f](f)
	var no *UnsupportedError
	var dunno *UnknownError
	switch {
	case err == nil, errors.As(err, &no), errors.As(err, &dunno):
		return err
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return denied(f, err)
	case errors.Is(err, unix.ENOSYS):
		return absent(f, "", err)
	}
	return &UnknownError{Feature: f.String(), Err: err}
}

// oneOf reports whether err is one of the errnos.
func oneOf(err error, errnos ...unix.Errno) bool {
	for _, e := range errnos {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func probeBTF(f Feature) error {
	_, err := os.Stat(vmlinuxBTF)
	if err == nil {
		return nil
	}
	if _, serr := os.Stat("/sys/kernel"); serr != nil {
		return &UnknownError{f.String(), "sysfs is not mounted on /sys", err}
	}
	return absent(f, "", err)
}

// pmuProbe checks for a perf PMU, and for a field of its format, in sysfs.
func pmuProbe(pmu, format string) func(Feature) error {
	return func(f Feature) error {
		dir := "/sys/bus/event_source/devices/"
		path := dir + pmu
		if format != "" {
			path += "/format/" + format
		}
		_, err := os.Stat(path)
		if err == nil {
			return nil
		}
		if _, serr := os.Stat(dir); serr != nil {
			return &UnknownError{f.String(), "sysfs is not mounted on /sys", err}
		}
		return absent(f, "", err)
	}
}

// probeRawTracepoint opens a tracepoint that does not exist: a kernel that has the call
// returns ENOENT. All supported kernels are newer than 4.17, but CONFIG_BPF_EVENTS may be off,
// and then the program type is unknown.
func probeRawTracepoint(f Feature) error {
	fd, _, err := load(prog{typ: unix.BPF_PROG_TYPE_RAW_TRACEPOINT})
	if oneOf(err, unix.EINVAL) {
		return absent(f, "", err)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = openRawTP(fd, "borescope_none", 0)
	if oneOf(err, unix.ENOENT) {
		return nil
	}
	return err
}

// probeRawTracepointCookie relies on the order of checks: the kernel returns EINVAL or E2BIG
// for attribute fields that it does not have before it checks the program's file descriptor,
// which returns EBADF.
func probeRawTracepointCookie(f Feature) error {
	err := openRawTP(-1, "borescope_none", 1)
	switch {
	case oneOf(err, unix.EBADF):
		return nil
	case oneOf(err, unix.EINVAL, unix.E2BIG):
		return absent(f, "", err)
	}
	return err
}

// openRawTP attaches a program and detaches it at once. If the name is empty, it attaches a
// tracing or LSM program to the target that it was loaded for.
func openRawTP(progFd int, name string, cookie uint64) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	attr := rawTPAttr{progFd: uint32(progFd), cookie: cookie}
	if name != "" {
		attr.name = ptr(&pin, &cstring(name)[0])
	}
	fd, err := bpf(unix.BPF_RAW_TRACEPOINT_OPEN, &attr)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// linkCreate attaches a program and detaches it at once.
func linkCreate[A any](attr *A) error {
	fd, err := bpf(unix.BPF_LINK_CREATE, attr)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// kprobeMultiProbe attaches to one function and detaches.
func kprobeMultiProbe(attach uint32) func(Feature) error {
	return func(f Feature) error {
		fd, _, err := load(prog{typ: unix.BPF_PROG_TYPE_KPROBE, attach: attach})
		if err != nil {
			return unknownAttachType(f, err)
		}
		defer unix.Close(fd)
		var pin runtime.Pinner
		defer pin.Unpin()
		syms := [1]uint64{ptr(&pin, &cstring("vfs_read")[0])}
		err = linkCreate(&kprobeMultiAttr{
			progFd: uint32(fd), attachType: attach, cnt: 1, syms: ptr(&pin, &syms[0]),
		})
		if oneOf(err, unix.EINVAL, unix.E2BIG, unix.EOPNOTSUPP, enotsupp) {
			return absent(f, "", err)
		}
		return err
	}
}

// uprobeMultiProbe attaches to a directory. A kernel that has the link returns EBADF
// (kernel/trace/bpf_trace.c: not a regular file).
func uprobeMultiProbe(attach uint32) func(Feature) error {
	return func(f Feature) error {
		fd, _, err := load(prog{typ: unix.BPF_PROG_TYPE_KPROBE, attach: attach})
		if err != nil {
			return unknownAttachType(f, err)
		}
		defer unix.Close(fd)
		var pin runtime.Pinner
		defer pin.Unpin()
		offsets := [1]uint64{0}
		err = linkCreate(&uprobeMultiAttr{
			progFd: uint32(fd), attachType: attach, cnt: 1,
			path: ptr(&pin, &cstring("/")[0]), offsets: ptr(&pin, &offsets[0]),
		})
		switch {
		case oneOf(err, unix.EBADF):
			return nil
		case oneOf(err, unix.EINVAL, unix.E2BIG, unix.EOPNOTSUPP, enotsupp):
			return absent(f, "", err)
		case err == nil:
			return errors.New("a directory was accepted")
		}
		return err
	}
}

// unknownAttachType interprets a failed load: EINVAL or E2BIG means that the kernel does not
// have the program type or attach type.
func unknownAttachType(f Feature, err error) error {
	if oneOf(err, unix.EINVAL, unix.E2BIG) {
		return absent(f, "", err)
	}
	return err
}

// probePerfLink uses a bad file descriptor for the event: EBADF means that the kernel has the
// attach type.
func probePerfLink(f Feature) error {
	fd, _, err := load(prog{typ: unix.BPF_PROG_TYPE_PERF_EVENT})
	if err != nil {
		return unknownAttachType(f, err)
	}
	defer unix.Close(fd)
	err = linkCreate(&linkAttr{
		progFd: uint32(fd), targetFd: ^uint32(0), attachType: unix.BPF_PERF_EVENT,
	})
	switch {
	case oneOf(err, unix.EBADF):
		return nil
	case oneOf(err, unix.EINVAL, unix.EOPNOTSUPP):
		return absent(f, "", err)
	}
	return err
}

// tracing loads a tracing or LSM program for a kernel type, attaches it and detaches it at
// once.
func tracing(f Feature, p prog, kind uint32, name string) error {
	id, err := btfID(kind, name)
	if errors.Is(err, os.ErrNotExist) {
		return absent(f, "the kernel has no BTF ("+vmlinuxBTF+")", err)
	}
	if err != nil {
		return err
	}
	p.btfID = id
	fd, _, err := load(p)
	if oneOf(err, unix.EINVAL, unix.E2BIG, unix.EOPNOTSUPP, enotsupp) {
		return absent(f, "", err)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if p.attach == unix.BPF_TRACE_ITER {
		return nil
	}
	err = openRawTP(fd, "", 0)
	if oneOf(err, unix.EINVAL, unix.EOPNOTSUPP, enotsupp) {
		return absent(f, "", err)
	}
	return err
}

// testFunction is a kernel function for testing, which the kernel calls only in test runs
// (net/bpf/test_run.c).
const testFunction = "bpf_fentry_test1"

// trampolineProbe attaches to testFunction and detaches.
func trampolineProbe(attach uint32) func(Feature) error {
	return func(f Feature) error {
		return tracing(f, prog{typ: unix.BPF_PROG_TYPE_TRACING, attach: attach}, rawbtf.Func,
			testFunction)
	}
}

// probeTracingMulti attaches to testFunction by its id, because such programs are loaded
// without a function.
func probeTracingMulti(f Feature) error {
	id, err := btfID(rawbtf.Func, testFunction)
	if errors.Is(err, os.ErrNotExist) {
		return absent(f, "the kernel has no BTF ("+vmlinuxBTF+")", err)
	}
	if err != nil {
		return err
	}
	fd, _, err := load(prog{typ: unix.BPF_PROG_TYPE_TRACING, attach: traceFentryMulti})
	if err != nil {
		return unknownAttachType(f, err)
	}
	defer unix.Close(fd)
	var pin runtime.Pinner
	defer pin.Unpin()
	err = linkCreate(&tracingMultiAttr{
		progFd: uint32(fd), attachType: traceFentryMulti, cnt: 1, ids: ptr(&pin, &id),
	})
	if oneOf(err, unix.EINVAL, unix.E2BIG, unix.EOPNOTSUPP, enotsupp) {
		return absent(f, "", err)
	}
	return err
}

func probeTPBTF(f Feature) error {
	p := prog{typ: unix.BPF_PROG_TYPE_TRACING, attach: unix.BPF_TRACE_RAW_TP}
	return tracing(f, p, rawbtf.Typedef, "btf_trace_task_newtask")
}

func probeIter(f Feature) error {
	p := prog{typ: unix.BPF_PROG_TYPE_TRACING, attach: unix.BPF_TRACE_ITER}
	return tracing(f, p, rawbtf.Func, "bpf_iter_task")
}

// probeLSM also checks that the hooks are called: if "bpf" is not in the list of active
// modules, attaching succeeds, but nothing fires.
func probeLSM(f Feature) error {
	p := prog{typ: unix.BPF_PROG_TYPE_LSM, attach: unix.BPF_LSM_MAC}
	if err := tracing(f, p, rawbtf.Func, "bpf_lsm_sb_umount"); err != nil {
		return err
	}
	b, err := os.ReadFile("/sys/kernel/security/lsm")
	if err != nil {
		return &UnknownError{f.String(), "securityfs is not mounted, which lists the active modules", err}
	}
	active := strings.TrimSpace(string(b))
	for _, m := range strings.Split(active, ",") {
		if m == "bpf" {
			return nil
		}
	}
	return absent(f, "bpf is not among the active security modules ("+active+"); boot with lsm=…,bpf",
		nil)
}

// sleepableProbe loads a program that may sleep. Those of the syscall type must be loaded as
// sleepable.
func sleepableProbe(typ uint32) func(Feature) error {
	return func(f Feature) error {
		fd, _, err := load(prog{typ: typ, flags: flagSleepable})
		if err != nil {
			return unknownAttachType(f, err)
		}
		return unix.Close(fd)
	}
}

func probeTestRun(f Feature) error {
	fd, _, err := load(prog{typ: unix.BPF_PROG_TYPE_RAW_TRACEPOINT})
	if err != nil {
		return unknownAttachType(f, err)
	}
	defer unix.Close(fd)
	_, err = bpf(unix.BPF_PROG_TEST_RUN, &testRunAttr{progFd: uint32(fd)})
	if oneOf(err, unix.EINVAL, unix.EOPNOTSUPP, enotsupp) {
		return absent(f, "", err)
	}
	return err
}

func probeRingbuf(f Feature) error {
	fd, err := createMap(mapAttr{
		mapType: unix.BPF_MAP_TYPE_RINGBUF, maxEntries: uint32(os.Getpagesize()),
	})
	if oneOf(err, unix.EINVAL) {
		return absent(f, "", err)
	}
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// batchProbe runs an empty batch. Every map type that has the operation accepts it or returns
// ENOENT (no entries).
func batchProbe(mapType uint32, cmd int) func(Feature) error {
	return func(f Feature) error {
		m, err := createMap(mapAttr{
			mapType: mapType, keySize: 4, valueSize: 8, maxEntries: 1,
		})
		if err != nil {
			return err
		}
		defer unix.Close(m)
		_, err = bpf(cmd, &batchAttr{mapFd: uint32(m)})
		switch {
		case err == nil, oneOf(err, unix.ENOENT):
			return nil
		case oneOf(err, unix.EINVAL, enotsupp, unix.EOPNOTSUPP):
			return absent(f, "", err)
		}
		return err
	}
}

// helperProbe calls a helper without arguments. The verifier looks up the helper before it
// checks the arguments. If it does not have or allow the helper, it returns EINVAL and logs
// that; for wrong arguments it returns EACCES or EINVAL with another log line.
func helperProbe(id int32) func(Feature) error {
	return func(f Feature) error {
		fd, log, err := load(prog{typ: unix.BPF_PROG_TYPE_KPROBE, helper: id})
		if err == nil {
			return unix.Close(fd)
		}
		if !oneOf(err, unix.EACCES, unix.EINVAL) || log == "" {
			return err
		}
		for _, s := range []string{"invalid func ", "unknown func ", "cannot use helper"} {
			if strings.Contains(log, s) {
				return absent(f, "", err)
			}
		}
		return nil
	}
}
