package testenv

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Objects are ids of BPF objects.
type Objects struct{ Programs, Maps, Links []uint32 }

// ObjectsOf lists the BPF objects that a process (0: this one) holds by file
// descriptors. Objects that it owns in no other way are gone when it is: that
// is what WaitGone checks.
func ObjectsOf(pid int) Objects {
	name := "self"
	if pid != 0 {
		name = strconv.Itoa(pid)
	}
	var o Objects
	for _, what := range filesOf(name) {
		f := strings.Fields(what)
		if len(f) < 3 {
			continue
		}
		id, err := strconv.ParseUint(f[len(f)-1], 10, 32)
		if err != nil {
			continue
		}
		switch f[len(f)-2] {
		case "prog_id":
			o.Programs = append(o.Programs, uint32(id))
		case "map_id":
			o.Maps = append(o.Maps, uint32(id))
		case "link_id":
			o.Links = append(o.Links, uint32(id))
		}
	}
	return o
}

// Len is the number of objects.
func (o Objects) Len() int { return len(o.Programs) + len(o.Maps) + len(o.Links) }

// WaitGone fails the test if one of the objects still exists after a few
// seconds, which the kernel may take to free them. Needs root.
func (o Objects) WaitGone(t testing.TB) {
	t.Helper()
	var left []string
	for range 100 {
		left = slices.Concat(
			existing("program", unix.BPF_PROG_GET_NEXT_ID, o.Programs),
			existing("map", unix.BPF_MAP_GET_NEXT_ID, o.Maps),
			existing("link", unix.BPF_LINK_GET_NEXT_ID, o.Links),
		)
		if len(left) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("left in the kernel: %s", strings.Join(left, ", "))
}

// existing lists the objects that are still there. It asks for the id after
// the one before instead of opening the object: a reference taken while a
// program array is torn down can make the kernel keep it for ever
// (prog_array_map_clear, kernel/bpf/arraymap.c).
func existing(kind string, cmd int, ids []uint32) []string {
	var found []string
	for _, id := range ids {
		attr := struct{ start, next, flags uint32 }{start: id - 1}
		_, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(cmd),
			uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		if errno == 0 && attr.next == id || errno != 0 && errno != unix.ENOENT {
			found = append(found, fmt.Sprintf("%s %d", kind, id))
		}
	}
	return found
}
