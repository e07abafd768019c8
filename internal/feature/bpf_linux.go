package feature

import (
	"bytes"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are the attributes of bpf(2) that the probes use (include/uapi/linux/bpf.h, union
// bpf_attr). The kernel accepts a shorter attribute than its own as if it ended in zeros, and
// a longer one if its tail is zero.
type (
	loadAttr struct {
		progType           uint32
		insnCnt            uint32
		insns              uint64
		license            uint64
		logLevel           uint32
		logSize            uint32
		logBuf             uint64
		_                  uint32 // kern_version
		progFlags          uint32
		_                  [20]byte // prog_name, prog_ifindex
		expectedAttachType uint32
		_                  [36]byte // prog_btf_fd to line_info_cnt
		attachBtfID        uint32
		_                  [32]byte // attach_prog_fd to log_true_size
		token              uint32
		_                  uint32 // fd_array_cnt
	}
	mapAttr struct {
		mapType, keySize, valueSize, maxEntries uint32
		flags                                   uint32
		_                                       [56]byte // inner_map_fd to value_type_btf_obj_fd
		token                                   uint32
	}
	batchAttr struct {
		_     [36]byte // in_batch to count
		mapFd uint32
		_     [16]byte // elem_flags, flags
	}
	rawTPAttr struct {
		name   uint64
		progFd uint32
		_      uint32
		cookie uint64
	}
	testRunAttr     struct{ progFd uint32 }
	linkAttr        struct{ progFd, targetFd, attachType uint32 }
	kprobeMultiAttr struct {
		progFd, _, attachType, _ uint32 // target_fd, flags
		_, cnt                   uint32 // kprobe_multi.flags
		syms                     uint64
	}
	uprobeMultiAttr struct {
		progFd, _, attachType, _ uint32 // target_fd, flags
		path, offsets            uint64
		_                        [16]byte // ref_ctr_offsets, cookies
		cnt                      uint32
	}
	tracingMultiAttr struct {
		progFd, _, attachType, _ uint32 // target_fd, flags
		ids, _                   uint64 // cookies
		cnt, _                   uint32
	}
)

// bpf makes the system call. The callers pin what attr points to.
func bpf[A any](cmd int, attr *A) (int, error) {
	for {
		r, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(cmd),
			uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
		// Signals interrupt loading, including those of the Go runtime.
		if errno == unix.EAGAIN || errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return -1, errno
		}
		return int(r), nil
	}
}

// insn is one BPF instruction. The probes use no register but r0, so the order of the register
// nibbles does not matter.
type insn struct {
	op  uint8
	_   uint8 // registers
	_   int16 // offset
	imm int32
}

// return0 is "r0 = 0; exit".
var return0 = [...]insn{{op: 0xb7}, {op: 0x95}}

// prog describes a program to load.
type prog struct {
	typ, attach, flags, btfID uint32
	helper                    int32 // a helper that the program calls first, 0 for none
}

// load loads a program that does nothing, and returns its file descriptor, or the errno with
// the verifier's log.
func load(p prog) (fd int, log string, err error) {
	insns := return0[:]
	if p.helper != 0 {
		insns = append([]insn{{op: 0x85, imm: p.helper}}, insns...)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	buf := make([]byte, 4096)
	license := []byte("GPL\x00")
	attr := loadAttr{
		progType: p.typ, insnCnt: uint32(len(insns)),
		insns: ptr(&pin, &insns[0]), license: ptr(&pin, &license[0]),
		logLevel: 1, logSize: uint32(len(buf)), logBuf: ptr(&pin, &buf[0]),
		progFlags: p.flags, expectedAttachType: p.attach, attachBtfID: p.btfID,
	}
	fd, err = withToken(func(token uint32) (int, error) {
		if attr.token = token; token != 0 {
			attr.progFlags |= flagTokenFD
		}
		return bpf(unix.BPF_PROG_LOAD, &attr)
	})
	if i := bytes.IndexByte(buf, 0); i >= 0 {
		buf = buf[:i]
	}
	return fd, string(buf), err
}

// createMap creates a map.
func createMap(attr mapAttr) (int, error) {
	return withToken(func(token uint32) (int, error) {
		if attr.token = token; token != 0 {
			attr.flags |= flagTokenFD
		}
		return bpf(unix.BPF_MAP_CREATE, &attr)
	})
}

func ptr[T any](pin *runtime.Pinner, p *T) uint64 {
	pin.Pin(p)
	return uint64(uintptr(unsafe.Pointer(p)))
}

// cstring returns s with a terminating zero.
func cstring(s string) []byte { return append([]byte(s), 0) }
