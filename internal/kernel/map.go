package kernel

import (
	"syscall"
	"unsafe"
)

// ENOTSUPP is an errno that the kernel uses internally (include/linux/errno.h), but returns
// from some of these calls, for example for a map type without batches.
const ENOTSUPP = syscall.Errno(524)

const cmdObjGetInfoByFD = 15

// MapCommand is a command of bpf(2) on the elements of a map.
type MapCommand uintptr

// These are from enum bpf_cmd, include/uapi/linux/bpf.h.
const (
	MapLookup          MapCommand = 1
	MapUpdate          MapCommand = 2
	MapDelete          MapCommand = 3
	MapNextKey         MapCommand = 4
	MapLookupAndDelete MapCommand = 21
	MapLookupBatch     MapCommand = 24 // Linux 5.6
	MapLookupDelBatch  MapCommand = 25 // Linux 5.6
)

// elemAttr is the bpf_attr of the element commands.
type elemAttr struct {
	fd    uint32
	_     uint32
	key   addr
	value addr // or the next key
	flags uint64
}

// batchAttr is the bpf_attr of the batch commands.
type batchAttr struct {
	in, out      addr
	keys, values addr
	count        uint32
	fd           uint32
	elemFlags    uint64
	flags        uint64
}

// infoAttr is the bpf_attr of BPF_OBJ_GET_INFO_BY_FD.
type infoAttr struct {
	fd, len uint32
	info    addr
}

// MapInfo is struct bpf_map_info up to the BTF ids of the key and value types, which cilium's
// MapInfo does not contain.
type MapInfo struct {
	Type, ID, KeySize, ValueSize, MaxEntries, Flags uint32
	Name                                            [16]byte
	Ifindex, VmlinuxValueType                       uint32
	NetnsDev, NetnsIno                              uint64
	BTFID, BTFKeyType, BTFValueType                 uint32
	_                                               uint32
}

func sliceAddr(b []byte) addr { return newAddr(unsafe.Pointer(unsafe.SliceData(b))) }

// MapElem runs a command on one element. The error is the bare errno.
func MapElem(cmd MapCommand, fd int, key, value []byte, flags uint64) error {
	attr := elemAttr{fd: uint32(fd), key: sliceAddr(key), value: sliceAddr(value), flags: flags}
	return mapCall(cmd, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
}

// MapBatch reads, or reads and removes, up to count elements from the cursor in, which is nil
// for the first. It stores the next cursor in out. It returns the number of elements, which is
// valid even with an error. The error is the bare errno: ENOENT at the end.
func MapBatch(cmd MapCommand, fd int, in, out, keys, values []byte, count int) (int, error) {
	attr := batchAttr{
		in: sliceAddr(in), out: sliceAddr(out), keys: sliceAddr(keys), values: sliceAddr(values),
		count: uint32(count), fd: uint32(fd),
	}
	err := mapCall(cmd, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return min(int(attr.count), count), err
}

// GetMapInfo returns a map's description.
func GetMapInfo(fd int) (*MapInfo, error) {
	info := new(MapInfo)
	attr := infoAttr{
		fd: uint32(fd), len: uint32(unsafe.Sizeof(*info)),
		info: newAddr(unsafe.Pointer(info)),
	}
	if err := mapCall(cmdObjGetInfoByFD, unsafe.Pointer(&attr), unsafe.Sizeof(attr)); err != nil {
		return nil, err
	}
	return info, nil
}
