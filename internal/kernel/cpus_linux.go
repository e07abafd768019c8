package kernel

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// onEachCPU calls f for each of cpus possible CPUs, on a thread that runs there. For CPUs that are
// offline, or that a cpuset keeps from this process, it calls f on another.
func onEachCPU(cpus int, f func(cpu int)) (err error) {
	runtime.LockOSThread()
	before, one := unix.NewCPUSet(cpus), unix.NewCPUSet(cpus)
	if err := unix.SchedGetaffinityDynamic(0, before); err != nil {
		runtime.UnlockOSThread()
		return os.NewSyscallError("sched_getaffinity", err)
	}
	defer func() {
		if e := unix.SchedSetaffinityDynamic(0, before); e != nil {
			// The thread stays locked, so that it ends with its goroutine.
			err = errors.Join(err, os.NewSyscallError("sched_setaffinity", e))
			return
		}
		runtime.UnlockOSThread()
	}()
	for cpu := range cpus {
		one.Zero()
		one.Set(cpu)
		// The call returns when the thread runs on the CPU (__set_cpus_allowed_ptr, kernel/sched/core.c).
		if err := unix.SchedSetaffinityDynamic(0, one); err != nil && !errors.Is(err, unix.EINVAL) {
			return os.NewSyscallError("sched_setaffinity", err)
		}
		f(cpu)
	}
	return nil
}

// mapShared maps the beginning of an array, which is mapped in whole pages.
func mapShared(fd, n int) ([]byte, error) {
	page := os.Getpagesize()
	b, err := unix.Mmap(fd, 0, (n+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return b, os.NewSyscallError("mmap", err)
}

func unmap(b []byte) error {
	if b == nil {
		return nil
	}
	return os.NewSyscallError("munmap", unix.Munmap(b))
}

// membarrierGlobal is MEMBARRIER_CMD_GLOBAL, which is synchronize_rcu (kernel/sched/membarrier.c).
const membarrierGlobal = 1

// synchronize waits until the programs that run have ended, sleepable ones left out. Kernels with CPUs
// without a tick refuse it: there it returns at once.
func synchronize() { _, _, _ = unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0) }
