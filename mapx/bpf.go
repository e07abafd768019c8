package mapx

import (
	"syscall"
	"unsafe"
)

// Commands of bpf(2), include/uapi/linux/bpf.h.
const (
	cmdLookup          = 1
	cmdUpdate          = 2
	cmdDelete          = 3
	cmdNextKey         = 4
	cmdObjInfo         = 15
	cmdLookupAndDelete = 21
	cmdLookupBatch     = 24 // Linux 5.6
	cmdLookupDelBatch  = 25 // Linux 5.6
	cmdUpdateBatch     = 26 // Linux 5.6
)

// errNotSupp is ENOTSUPP, which the kernel returns to user space for a map
// type without batches although it is not one of errno.h's.
const errNotSupp = syscall.Errno(524)

// elemAttr is the bpf_attr of the element commands.
type elemAttr struct {
	fd    uint32
	_     uint32
	key   pointer
	value pointer // or the next key
	flags uint64
}

// batchAttr is the bpf_attr of the batch commands.
type batchAttr struct {
	in, out   pointer
	keys      pointer
	values    pointer
	count     uint32
	fd        uint32
	elemFlags uint64
	flags     uint64
}

// infoAttr is the bpf_attr of BPF_OBJ_GET_INFO_BY_FD.
type infoAttr struct {
	fd, len uint32
	info    pointer
}

// mapInfo is struct bpf_map_info as far as it is needed: the BTF ids of the
// key and value types are not in cilium's MapInfo.
type mapInfo struct {
	typ, id, keySize, valueSize, maxEntries, flags uint32
	name                                           [16]byte
	ifindex, vmlinuxValueType                      uint32
	netnsDev, netnsIno                             uint64
	btfID, btfKeyType, btfValueType                uint32
	_                                              uint32
}

func bytesPointer(b []byte) pointer {
	return newPointer(unsafe.Pointer(unsafe.SliceData(b)))
}

func elemCall(cmd int, fd int, key, value []byte, flags uint64) error {
	attr := elemAttr{fd: uint32(fd), key: bytesPointer(key), value: bytesPointer(value), flags: flags}
	return bpf(cmd, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
}

func readMapInfo(fd int) (*mapInfo, error) {
	info := new(mapInfo)
	attr := infoAttr{fd: uint32(fd), len: uint32(unsafe.Sizeof(*info)), info: newPointer(unsafe.Pointer(info))}
	if err := bpf(cmdObjInfo, unsafe.Pointer(&attr), unsafe.Sizeof(attr)); err != nil {
		return nil, err
	}
	return info, nil
}

// alignedBytes returns n bytes that start on an 8-byte boundary, so that any
// fixed-size value may be read in place.
func alignedBytes(n int) []byte {
	if n == 0 {
		return nil
	}
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}
