package tool

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
)

// keptCaps are what a run needs once all is attached: to read maps and detach,
// to look at processes, at files of others for names, also those that have no path any
// more (/proc/PID/map_files), and at kernel addresses.
var keptCaps = []feature.Cap{
	feature.CapBPF, feature.CapPerfmon, feature.CapSysPtrace, feature.CapDACReadSearch, feature.CapSyslog,
	feature.CapCheckpointRestore,
}

// dropCapabilities gives up all capabilities of all threads but those, for
// good. In a cgo program, where the threads are not package syscall's alone, it
// does nothing.
func dropCapabilities(keep []feature.Cap) error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	var mask [2]uint32
	for _, c := range keep {
		mask[c/32] |= 1 << (c % 32)
	}
	for i := range caps {
		caps[i].Permitted &= mask[i]
		caps[i].Effective &= mask[i]
		caps[i].Inheritable &= mask[i]
	}
	_, _, no := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&caps[0])), 0)
	if no != 0 && !errors.Is(no, errors.ErrUnsupported) {
		return fmt.Errorf("give up capabilities: %w", os.NewSyscallError("capset", no))
	}
	return nil
}
