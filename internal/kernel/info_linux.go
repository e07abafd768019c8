package kernel

import (
	"encoding/binary"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// LinkInfo describes a bpf_link: the start of struct bpf_link_info (include/uapi/linux/bpf.h).
type LinkInfo struct {
	Type, ID, Program uint32
	// Missed is the number of events that a kprobe link missed, valid if MissedKnown is set
	// (Linux 6.7, commit e2b2cd592a7d and its neighbours).
	Missed      uint64
	MissedKnown bool
}

// These are types of links and perf events, from enum bpf_link_type and bpf_perf_event_type.
const (
	linkPerfEvent   = 7
	linkKprobeMulti = 8
	perfKprobe      = 3
	perfKretprobe   = 4
)

// Info returns the description of the link behind a descriptor.
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
	// The kernel sets attr.len to the size that it filled in.
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

// ProgramTarget returns the BTF id of the function that a tracing program was loaded for, in
// the kernel's types; 0 is none.
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

// Pin pins a link (or any BPF object) in the BPF file system.
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

// OpenPinned opens a pinned object. The caller closes the descriptor.
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

// UpdateLink replaces the program of a link in place. For perf, multi and tracing links it
// fails with EINVAL up to Linux 6.18.
func UpdateLink(fd, prog int) error {
	attr := struct{ link, prog, flags, old uint32 }{uint32(fd), uint32(prog), 0, 0}
	_, err := bpf(cmdLinkUpdate, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return err
}

// Close closes a descriptor of this package.
func Close(fd int) error { return os.NewSyscallError("close", unix.Close(fd)) }

// Dup duplicates a descriptor, with close-on-exec set.
func Dup(fd int) (int, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return n, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
}

// ReadOnlyMap opens a map by its id. The descriptor cannot change the map (BPF_F_RDONLY). It
// needs CAP_SYS_ADMIN.
func ReadOnlyMap(id uint32) (int, error) {
	attr := struct{ id, next, flags uint32 }{id, 0, unix.BPF_F_RDONLY}
	return bpf(cmdMapGetFDByID, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
}

// InterfaceIndex returns the index of a network interface of this network namespace.
func InterfaceIndex(name string) (int, error) {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	defer unix.Close(s)
	if err := unix.IoctlIfreq(s, unix.SIOCGIFINDEX, ifr); err != nil {
		return 0, os.NewSyscallError("ioctl SIOCGIFINDEX", err)
	}
	return int(ifr.Uint32()), nil
}

// Interfaces returns the names of the network interfaces, nil if they are not known.
func Interfaces() (names []string) {
	b, err := os.ReadFile("/proc/thread-self/net/dev") // a table with two lines above it
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// PacketFilter opens a packet socket on an interface with a program as its filter, which runs
// for every packet in and out. The filter should return 0, which keeps the packets out of the
// socket, because nothing reads it.
func PacketFilter(ifindex, prog int) (int, error) {
	// It is bound to no protocol at first, so that no packet arrives before the filter is set.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket AF_PACKET", err)
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ATTACH_BPF, prog); err != nil {
		err = os.NewSyscallError("setsockopt SO_ATTACH_BPF", err)
	} else {
		// htons on little-endian machines, the only ones supported
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
