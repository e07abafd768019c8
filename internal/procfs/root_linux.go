package procfs

import "os"

// HasOwnRoot reports whether a process has this process's root directory, in the same mount
// namespace, so that every path leads to the same file in both. It is false if that is not known.
func HasOwnRoot(pid int) bool {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return false
	}
	its, err := os.Readlink(Dir(pid) + "/ns/mnt")
	if err != nil || its != own {
		return false
	}
	root, err := os.Readlink(Dir(pid) + "/root") // as seen from this process's
	return err == nil && root == "/"
}
