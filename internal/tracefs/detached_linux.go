package tracefs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// detached creates a mount of tracefs that is attached to no directory and only accessible
// through the descriptor (fs/fsopen.c; Linux 5.2).
func detached() (*os.File, error) {
	ctx, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigCreate(ctx); err != nil {
		return nil, fmt.Errorf("fsconfig: %w", err)
	}
	const attrs = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, attrs)
	if err != nil {
		return nil, fmt.Errorf("fsmount: %w", err)
	}
	return os.NewFile(uintptr(fd), "tracefs"), nil
}
