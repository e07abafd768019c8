package kernel

import (
	"encoding/binary"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// LinkInfo is what the kernel says of a bpf_link: the start of struct
// bpf_link_info (include/uapi/linux/bpf.h).
type LinkInfo struct {
	Type, ID, Program uint32
	// Missed is how many events a kprobe link missed, where MissedKnown is set
	// (Linux 6.7, commit e2b2cd592a7d and its neighbours).
	Missed      uint64
	MissedKnown bool
}

// Types of links and perf events, from enum bpf_link_type and bpf_perf_event_type.
const (
	linkPerfEvent   = 7
	linkKprobeMulti = 8
	perfKprobe      = 3
	perfKretprobe   = 4
)

// Info asks the kernel about the link behind a descriptor.
func Info(fd int) (*LinkInfo, error) {
	var info struct {
		typ, id, prog, _ uint32
		u                [112]byte
	}
	attr := struct {
		fd, len uint32
		info    unsafe.Pointer
	}{uint32(fd), uint32(unsafe.Sizeof(info)), unsafe.Pointer(&info)}
	if _, err := bpf(cmdObjGetInfoByFD, unsafe.Pointer(&attr), unsafe.Sizeof(attr)); err != nil {
		return nil, err
	}
	out := &LinkInfo{Type: info.typ, ID: info.id, Program: info.prog}
	// The kernel writes attr.len: how much it knows.
	known := func(end int) bool { return int(attr.len) >= 16+end }
	switch {
	case info.typ == linkKprobeMulti && known(24):
		out.Missed, out.MissedKnown = binary.NativeEndian.Uint64(info.u[16:]), true
	case info.typ == linkPerfEvent && known(40):
		if t := binary.NativeEndian.Uint32(info.u[:]); t == perfKprobe || t == perfKretprobe {
			out.Missed, out.MissedKnown = binary.NativeEndian.Uint64(info.u[32:]), true
		}
	}
	return out, nil
}

// ProgramTarget asks for the id of the function, in the kernel's types, that a
// tracing program was loaded for; 0 is none.
func ProgramTarget(fd int) (uint32, error) {
	var info struct {
		_     [224]byte
		btfID uint32 // struct bpf_prog_info.attach_btf_id (5.17, commit b79c9fc9551b)
		_     uint32
	}
	attr := struct {
		fd, len uint32
		info    unsafe.Pointer
	}{uint32(fd), uint32(unsafe.Sizeof(info)), unsafe.Pointer(&info)}
	_, err := bpf(cmdObjGetInfoByFD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return info.btfID, err
}

// Pin puts a link (or any BPF object) into the BPF file system.
func Pin(fd int, name string) error {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	attr := struct {
		path  unsafe.Pointer
		fd    uint32
		flags uint32
	}{path: unsafe.Pointer(p), fd: uint32(fd)}
	_, err = bpf(cmdObjPin, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return err
}

// OpenPinned opens a pinned object; the caller closes the descriptor.
func OpenPinned(name string) (int, error) {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	attr := struct {
		path  unsafe.Pointer
		fd    uint32
		flags uint32
	}{path: unsafe.Pointer(p)}
	return bpf(cmdObjGet, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
}

// UpdateLink replaces the program of a link in place. Perf, multi and tracing
// links refuse with EINVAL up to Linux 6.18.
func UpdateLink(fd, prog int) error {
	attr := struct{ link, prog, flags, old uint32 }{uint32(fd), uint32(prog), 0, 0}
	_, err := bpf(cmdLinkUpdate, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return err
}

// Close closes a descriptor of this package.
func Close(fd int) error { return os.NewSyscallError("close", unix.Close(fd)) }

// Dup duplicates a descriptor, close-on-exec.
func Dup(fd int) (int, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return n, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
}

// ReadOnlyMap opens a map by its id with a descriptor that can't change it
// (BPF_F_RDONLY). It needs CAP_SYS_ADMIN.
func ReadOnlyMap(id uint32) (int, error) {
	attr := struct{ id, next, flags uint32 }{id, 0, unix.BPF_F_RDONLY}
	return bpf(cmdMapGetFDByID, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
}

// PacketFilter opens a packet socket on an interface with a program as its
// filter, which sees every packet in and out. Filters that return 0 keep the
// packets out of the socket, which nobody reads.
func PacketFilter(ifindex, prog int) (int, error) {
	// Bound to no protocol at first, so that nothing arrives before the filter is there.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket AF_PACKET", err)
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ATTACH_BPF, prog); err != nil {
		err = os.NewSyscallError("setsockopt SO_ATTACH_BPF", err)
	} else {
		// htons, on the little-endian machines there are
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
		err = os.NewSyscallError("bind",
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: ifindex}))
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
