package testenv

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
)

func checkRoot() error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("user %d", uid)
	}
	if missing := feature.MissingCaps(feature.CapBPF, feature.CapPerfmon); len(missing) > 0 {
		return fmt.Errorf("without %v", missing)
	}
	return nil
}

// mounted checks that a file system is there, and mounts it for root. The
// mount stays: these are places that the kernel made for nothing else, and the
// next test would need it too.
func mounted(fstype, target, file string) func() error {
	return func() error {
		if usable(fstype, target, file) == nil {
			return nil
		}
		if os.Geteuid() == 0 {
			if err := unix.Mount(fstype, target, fstype, 0, ""); err != nil {
				return fmt.Errorf("mount on %s: %w", target, err)
			}
		}
		return usable(fstype, target, file)
	}
}

var magics = map[string]int64{
	"tracefs":    unix.TRACEFS_MAGIC,
	"bpf":        unix.BPF_FS_MAGIC,
	"securityfs": unix.SECURITYFS_MAGIC,
}

func usable(fstype, target, file string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(target, &st); err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	if int64(st.Type) != magics[fstype] {
		return fmt.Errorf("not mounted on %s", target)
	}
	if file == "" {
		return nil
	}
	f, err := os.Open(filepath.Join(target, file))
	if err != nil {
		return err
	}
	return f.Close()
}
