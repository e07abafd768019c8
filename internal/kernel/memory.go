package kernel

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// MemoryLeft returns how many bytes this process, and the kernel on its behalf, may still
// allocate under the limits of its control groups and those above them. The memory of BPF maps
// is charged to them. root is the root of the host's files. Page cache that the kernel can
// free counts as left. It is math.MaxUint64 without a limit, and if the limit is unknown.
func MemoryLeft(root fs.FS) uint64 {
	left := uint64(math.MaxUint64)
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return left
	}
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		for _, h := range memoryHierarchies {
			if h.controller != f[1] {
				continue
			}
			// A container sees its own group as the root.
			for dir := path.Clean("/" + f[2]); ; dir = path.Dir(dir) {
				left = min(left, h.left(root, h.mount+dir))
				if dir == "/" {
					break
				}
			}
		}
	}
	return left
}

// memoryHierarchy describes a hierarchy of control groups of memory and its file names:
// version 1, or 2 with the controller "". scope is the prefix of statistics that include the
// groups below.
type memoryHierarchy struct{ controller, mount, limit, usage, scope string }

var memoryHierarchies = []memoryHierarchy{
	{"memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"},
	{"", "sys/fs/cgroup", "memory.max", "memory.current", ""},
	{"", "sys/fs/cgroup/unified", "memory.max", "memory.current", ""},
}

// left returns the bytes that one group may still allocate.
func (h *memoryHierarchy) left(root fs.FS, dir string) uint64 {
	number := func(name string) (uint64, bool) {
		b, err := fs.ReadFile(root, path.Join(dir, name))
		if err != nil {
			return 0, false
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		return n, err == nil // "max" is no limit
	}
	limit, ok := number(h.limit)
	usage, known := number(h.usage)
	if !ok || !known || limit >= math.MaxInt64/2 { // version 1's "no limit" is less than MaxInt64
		return math.MaxUint64
	}
	stat, _ := fs.ReadFile(root, path.Join(dir, "memory.stat"))
	for line := range strings.Lines(string(stat)) {
		if f := strings.Fields(line); len(f) == 2 &&
			(f[0] == h.scope+"inactive_file" || f[0] == h.scope+"active_file") {
			if n, err := strconv.ParseUint(f[1], 10, 64); err == nil {
				usage -= min(usage, n)
			}
		}
	}
	return limit - min(limit, usage)
}
