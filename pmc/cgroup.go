package pmc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/borescope/borescope/internal/notexist"
)

// openCgroup opens a cgroup's directory by a path in the form of Scope.Cgroup. The caller
// closes the file.
func openCgroup(path string) (*os.File, error) {
	mounts, err := readSmall(os.DirFS("/"), "proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", path, err)
	}
	at := perfCgroupMount(string(mounts))
	if st, err := os.Stat(path); err == nil && st.IsDir() && filepath.IsAbs(path) && path != "/" {
		return os.Open(path)
	}
	if at == "" {
		return nil, notexist.Errorf(
			"cgroup %s: neither cgroup v1's perf_event hierarchy nor cgroup2 is mounted", path)
	}
	return os.Open(filepath.Join(at, filepath.Clean("/"+path)))
}

// perfCgroupMount returns the mount point of the hierarchy with the perf_event controller.
func perfCgroupMount(mounts string) string {
	var unified string
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch {
		case f[2] == "cgroup" && strings.Contains(","+f[3]+",", ",perf_event,"):
			return f[1]
		case f[2] == "cgroup2" && unified == "":
			unified = f[1]
		}
	}
	return unified
}
