package action

import "github.com/borescope/borescope/internal/kernel"

// CgroupPath returns the path, below the cgroup2 hierarchy, of the cgroup with that id, as
// the builtin cgroup gives it: "/system.slice/ssh.service". It looks the path up now and
// needs CAP_DAC_READ_SEARCH. If the cgroup is gone, the error matches fs.ErrNotExist.
func CgroupPath(id uint64) (string, error) { return kernel.CgroupPath(id) }

// CgroupID returns the id of the cgroup of that path, which is below the cgroup2 hierarchy or
// of the file system. The id is a constant to compare the builtin cgroup with.
func CgroupID(path string) (uint64, error) { return kernel.CgroupID(path) }
