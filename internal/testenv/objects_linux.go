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

// Objects contains ids of BPF objects.
type Objects struct{ Programs, Maps, Links []uint32 }

// ObjectsOf returns the BPF objects that a process (0: this one) holds by file descriptors.
// Unless something else keeps them, they end with the process, which WaitGone checks.
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

// Len returns the number of objects.
func (o Objects) Len() int { return len(o.Programs) + len(o.Maps) + len(o.Links) }

// WaitGone fails the test if one of the objects still exists after five seconds, because the
// kernel may take some time to free them. It needs root.
func (o Objects) WaitGone(t testing.TB) {
	t.Helper()
	var left []string
	for range 100 {
		if left = o.Existing(); len(left) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("left in the kernel: %s", strings.Join(left, ", "))
}

// Existing returns the objects that exist, as "program 17", "map 3", "link 4". It needs root.
func (o Objects) Existing() []string {
	return slices.Concat(
		existing("program", unix.BPF_PROG_GET_NEXT_ID, o.Programs),
		existing("map", unix.BPF_MAP_GET_NEXT_ID, o.Maps),
		existing("link", unix.BPF_LINK_GET_NEXT_ID, o.Links),
	)
}

// Union returns the objects of both, each once.
func (o Objects) Union(with Objects) Objects {
	union := func(a, b []uint32) []uint32 {
		all := slices.Concat(a, b)
		slices.Sort(all)
		return slices.Compact(all)
	}
	return Objects{
		union(o.Programs, with.Programs), union(o.Maps, with.Maps), union(o.Links, with.Links),
	}
}

// existing returns the objects that still exist. It gets the id that follows the previous
// number, and does not open the object: a reference taken while a program array is torn down
// can make the kernel keep it forever (prog_array_map_clear, kernel/bpf/arraymap.c).
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
