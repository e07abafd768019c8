package kernel

import (
	"math"
	"testing"
	"testing/fstest"
)

// What is left is the least of all groups from the process's own upwards.
func TestMemoryLeft(t *testing.T) {
	files := func(pairs ...string) fstest.MapFS {
		m := fstest.MapFS{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
		}
		return m
	}
	for name, c := range map[string]struct {
		root fstest.MapFS
		want uint64
	}{
		"nothing known": {files(), math.MaxUint64},
		"no limit": {files(
			"proc/self/cgroup", "9:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n",
		), math.MaxUint64},
		"version 1": {files(
			"proc/self/cgroup", "9:memory:/a/b\n1:name=systemd:/x\n0::/\n",
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "1000\n",
			"sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "700\n",
			"sys/fs/cgroup/memory/a/b/memory.stat", "cache 200\ninactive_file 1\ntotal_inactive_file 60\ntotal_active_file 40\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes", "4900\n",
		), 100},
		"version 2": {files(
			"proc/self/cgroup", "0::/a\n",
			"sys/fs/cgroup/a/memory.max", "max\n",
			"sys/fs/cgroup/a/memory.current", "700\n",
			"sys/fs/cgroup/memory.max", "1000\n",
			"sys/fs/cgroup/memory.current", "900\n",
			"sys/fs/cgroup/memory.stat", "inactive_file 50\n",
		), 150},
		"over the limit": {files(
			"proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "10\n", "sys/fs/cgroup/memory.current", "11\n",
		), 0},
	} {
		if got := MemoryLeft(c.root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
