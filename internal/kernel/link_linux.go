package kernel

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are attach types, from enum bpf_attach_type. cilium exports no constants from the
// uprobe session on.
const (
	AttachTypeRawTP         = 23
	AttachTypeFentry        = 24
	AttachTypeFexit         = 25
	AttachTypeModifyReturn  = 26
	AttachTypeLSM           = 27
	AttachTypeIter          = 28
	AttachTypePerfEvent     = 41
	AttachTypeKprobeMulti   = 42
	AttachTypeUprobeMulti   = 48
	AttachTypeKprobeSession = 56
	AttachTypeUprobeSession = 57
	AttachTypeFsession      = 58
	AttachTypeFentryMulti   = 59
	AttachTypeFexitMulti    = 60
	AttachTypeFsessionMulti = 61
)

// MultiReturn is a flag of multi links: BPF_F_KPROBE_MULTI_RETURN and
// BPF_F_UPROBE_MULTI_RETURN.
const MultiReturn = 1

type perfMember struct{ cookie uint64 }

type kprobeMultiMember struct {
	flags   uint32
	count   uint32
	_       unsafe.Pointer // syms: names instead of addresses
	addrs   unsafe.Pointer
	cookies unsafe.Pointer
}

type uprobeMultiMember struct {
	path    unsafe.Pointer
	offsets unsafe.Pointer
	refs    unsafe.Pointer
	cookies unsafe.Pointer
	count   uint32
	flags   uint32
	pid     uint32
	_       uint32
}

type tracingMember struct {
	_      [2]uint32 // target_btf_id and its object, set when the program was loaded
	cookie uint64
}

type tracingMultiMember struct {
	ids     unsafe.Pointer
	cookies unsafe.Pointer
	count   uint32
	_       uint32
}

type iterMember struct {
	info unsafe.Pointer
	len  uint32
	_    uint32
}

// linkAttr is link_create of union bpf_attr with a typed member, so that the garbage collector
// sees the pointers in it.
type linkAttr[M any] struct {
	prog       uint32
	target     uint32
	attachType uint32
	flags      uint32
	m          M
}

func create[M any](l *linkAttr[M]) (int, error) {
	return bpf(cmdLinkCreate, unsafe.Pointer(l), unsafe.Sizeof(*l))
}

// These are bits for PerfEventOpen and struct perf_event_attr.
const (
	PerfPIDCgroup   = unix.PERF_FLAG_PID_CGROUP
	SampleIP        = unix.PERF_SAMPLE_IP
	SampleCallchain = unix.PERF_SAMPLE_CALLCHAIN
)

// PerfLink attaches a program to a perf event with a bpf_link, which keeps the event alive
// (Linux 5.15).
func PerfLink(prog, event int, cookie uint64) (int, error) {
	return create(&linkAttr[perfMember]{
		prog: uint32(prog), target: uint32(event), attachType: AttachTypePerfEvent,
		m: perfMember{cookie},
	})
}

// SetPerfProgram attaches a program to a perf event by ioctl, for kernels without perf links.
// The event's descriptor owns the attachment.
func SetPerfProgram(prog, event int) error {
	return os.NewSyscallError("ioctl PERF_EVENT_IOC_SET_BPF",
		unix.IoctlSetInt(event, unix.PERF_EVENT_IOC_SET_BPF, prog))
}

// KprobeMulti attaches a program to many kernel functions (Linux 5.18).
// attachType is AttachTypeKprobeMulti or AttachTypeKprobeSession; cookies is
// empty or as long as addrs.
func KprobeMulti(prog int, attachType uint32, addrs, cookies []uint64, flags uint32) (int, error) {
	l := &linkAttr[kprobeMultiMember]{
		prog: uint32(prog), attachType: attachType,
		m: kprobeMultiMember{
			flags: flags, count: uint32(len(addrs)),
			addrs: pointer(addrs), cookies: pointer(cookies),
		},
	}
	return create(l)
}

// UprobeMulti attaches a program to many places of one file (Linux 6.6). attachType is
// AttachTypeUprobeMulti or, since 6.13, AttachTypeUprobeSession. refs and cookies are empty or
// as long as offsets. pid 0 means every process.
func UprobeMulti(prog int, attachType uint32, path string, offsets, refs, cookies []uint64,
	pid int, flags uint32,
) (int, error) {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	return create(&linkAttr[uprobeMultiMember]{
		prog: uint32(prog), attachType: attachType,
		m: uprobeMultiMember{
			path: unsafe.Pointer(p), offsets: pointer(offsets), refs: pointer(refs),
			cookies: pointer(cookies), count: uint32(len(offsets)), flags: flags, pid: uint32(pid),
		},
	})
}

// Tracing attaches a program that was loaded for its target: fentry, fexit, fsession,
// fmod_ret, tp_btf, LSM. Kernels before 5.19 support only BPF_RAW_TRACEPOINT_OPEN for this,
// without a cookie (commit 2fcc82411e74).
func Tracing(prog int, attachType uint32, cookie uint64) (int, error) {
	fd, err := create(&linkAttr[tracingMember]{
		prog: uint32(prog), attachType: attachType, m: tracingMember{cookie: cookie},
	})
	if err == nil || cookie != 0 || !isInvalid(err) {
		return fd, err
	}
	return RawTracepoint(prog, "", 0)
}

// TracingMulti attaches a program to many functions, given by their ids in the BTF that the
// program was loaded with (Linux 7.2, on amd64). attachType is one of AttachTypeFentryMulti,
// AttachTypeFexitMulti and AttachTypeFsessionMulti. cookies is empty or as long as ids. To be
// replaced by cilium/ebpf#2078.
func TracingMulti(prog int, attachType uint32, ids []uint32, cookies []uint64) (int, error) {
	return create(&linkAttr[tracingMultiMember]{
		prog: uint32(prog), attachType: attachType,
		m: tracingMultiMember{ids: pointer(ids), cookies: pointer(cookies), count: uint32(len(ids))},
	})
}

func isInvalid(err error) bool {
	e, ok := err.(*os.SyscallError)
	return ok && (e.Err == unix.EINVAL || e.Err == ENOTSUPP)
}

// RawTracepoint attaches a program to a raw tracepoint. A cookie other than 0
// needs Linux 6.10.
func RawTracepoint(prog int, name string, cookie uint64) (int, error) {
	attr := struct {
		name   unsafe.Pointer
		prog   uint32
		_      uint32
		cookie uint64
	}{prog: uint32(prog), cookie: cookie}
	if name != "" {
		p, err := unix.BytePtrFromString(name)
		if err != nil {
			return -1, err
		}
		attr.name = unsafe.Pointer(p)
	}
	size := unsafe.Sizeof(attr)
	if cookie == 0 {
		size -= 8 // older kernels accept unknown fields that are zero, but the exact size is safer
	}
	return bpf(cmdRawTracepointOpen, unsafe.Pointer(&attr), size)
}

// IterTask restricts an iterator over tasks: it is union bpf_iter_link_info.task.
type IterTask struct {
	TID, PID, PIDFD uint32
}

// Iter creates an iterator link (Linux 5.8). task may be nil; others need 6.1.
func Iter(prog int, task *IterTask) (int, error) {
	l := &linkAttr[iterMember]{prog: uint32(prog), attachType: AttachTypeIter}
	if task != nil {
		l.m = iterMember{info: unsafe.Pointer(task), len: uint32(unsafe.Sizeof(*task))}
	}
	return create(l)
}

// TestRun runs a program once with ctx as its context and returns its return value
// (BPF_PROG_TEST_RUN).
func TestRun(prog int, ctx []byte) (uint32, error) {
	attr := struct {
		prog, retval                 uint32
		sizeIn, sizeOut              uint32
		in, out                      unsafe.Pointer
		repeat, duration             uint32
		ctxIn, ctxOut                uint32
		ctxInPtr, ctxOutPtr          unsafe.Pointer
		flags, cpu, batchSize, spare uint32
	}{prog: uint32(prog), ctxIn: uint32(len(ctx)), ctxInPtr: pointer(ctx)}
	_, err := bpf(cmdProgTestRun, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return attr.retval, err
}

func pointer[T any](s []T) unsafe.Pointer {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Pointer(unsafe.SliceData(s))
}

// attrConfig1 is the offset of config1 (kprobe_func, uprobe_path) in struct perf_event_attr.
const attrConfig1 = 56

// PerfEventOpen opens an event with an encoded struct perf_event_attr. Its size must be set.
// If path is not empty, it sets config1 to the path's address, for the kprobe and uprobe PMUs.
// The descriptor is close-on-exec.
func PerfEventOpen(attr []byte, path string, pid, cpu, group int, flags uint) (int, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	if path != "" {
		p, err := unix.BytePtrFromString(path)
		if err != nil {
			return -1, err
		}
		pin.Pin(p)
		*(*uint64)(unsafe.Pointer(&attr[attrConfig1])) = uint64(uintptr(unsafe.Pointer(p)))
	}
	fd, _, errno := unix.Syscall6(unix.SYS_PERF_EVENT_OPEN,
		uintptr(unsafe.Pointer(unsafe.SliceData(attr))),
		uintptr(pid), uintptr(cpu), uintptr(group), uintptr(flags|unix.PERF_FLAG_FD_CLOEXEC), 0)
	if errno != 0 {
		return -1, os.NewSyscallError("perf_event_open", errno)
	}
	return int(fd), nil
}

// EnabledTime returns how long an event has been enabled, in nanoseconds. The event's read
// format must be PERF_FORMAT_TOTAL_TIME_ENABLED.
func EnabledTime(event int) (uint64, error) {
	var b [16]byte // the count and the time
	n, err := unix.Read(event, b[:])
	if err != nil {
		return 0, os.NewSyscallError("read", err)
	}
	if n != len(b) {
		return 0, fmt.Errorf("read a perf event: %d bytes instead of %d", n, len(b))
	}
	return binary.NativeEndian.Uint64(b[8:]), nil
}

// EnablePerf starts an event that was opened disabled.
func EnablePerf(event int) error {
	return os.NewSyscallError("ioctl PERF_EVENT_IOC_ENABLE",
		unix.IoctlSetInt(event, unix.PERF_EVENT_IOC_ENABLE, 0))
}
