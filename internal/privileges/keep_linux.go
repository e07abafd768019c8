package privileges

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/procfs"
)

// keep drops all capabilities except those in kept, in all threads.
func keep(kept []feature.Cap) error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	var mask [2]uint32
	for _, c := range kept {
		mask[c/32] |= 1 << (c % 32)
	}
	more := false
	for i := range caps {
		more = more || (caps[i].Permitted|caps[i].Inheritable)&^mask[i] != 0
		caps[i].Permitted &= mask[i]
		caps[i].Effective &= mask[i]
		caps[i].Inheritable &= mask[i]
	}
	if !more {
		return nil
	}
	err := procfs.Quiet(func() error {
		_, _, no := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)),
			uintptr(unsafe.Pointer(&caps[0])), 0)
		if no == 0 {
			return nil
		}
		return os.NewSyscallError("capset", no)
	})
	var late *procfs.ServedError
	switch {
	case errors.As(err, &late):
		return errStuck
	case errors.Is(err, errors.ErrUnsupported):
		return errKept
	case err != nil:
		return fmt.Errorf("give up capabilities: %w", err)
	}
	return nil
}
