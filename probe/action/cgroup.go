package action

import "github.com/borescope/borescope/internal/kernel"

// CgroupPath is the path of the cgroup whose id the builtin cgroup gave, below
// the cgroup2 hierarchy: "/system.slice/ssh.service". It is looked up now, needs
// CAP_DAC_READ_SEARCH, and is an error that matches fs.ErrNotExist if the cgroup
// is gone.
func CgroupPath(id uint64) (string, error) { return kernel.CgroupPath(id) }

// CgroupID is the id of the cgroup of that path, below the cgroup2 hierarchy or
// of the file system: a constant to compare the builtin cgroup with.
func CgroupID(path string) (uint64, error) { return kernel.CgroupID(path) }
