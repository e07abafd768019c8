package main

import (
	"fmt"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bpfIDs returns the ids of the kernel's programs, maps or links, by a GET_NEXT_ID command.
func bpfIDs(cmd int) []string {
	var ids []string
	var attr struct{ id, next, flags uint32 }
	for {
		_, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(cmd),
			uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		if errno == unix.ENOENT {
			return ids
		}
		if errno != 0 {
			return append(ids, fmt.Sprintf("(can't list: %v)", errno))
		}
		attr.id = attr.next
		ids = append(ids, strconv.Itoa(int(attr.next)))
	}
}
