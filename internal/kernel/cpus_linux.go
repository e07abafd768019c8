package kernel

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnEachCPU calls f for each of cpus possible CPUs, on a thread that runs there. For CPUs that are
// offline, or that a cpuset keeps from this process, it calls f on another.
func OnEachCPU(cpus int, f func(cpu int)) (err error) {
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

// membarrierGlobal is MEMBARRIER_CMD_GLOBAL, which is synchronize_rcu (kernel/sched/membarrier.c).
const membarrierGlobal = 1

// Synchronize waits until the programs that run have ended, sleepable ones left out. Kernels with CPUs
// without a tick refuse it: there it returns at once.
func Synchronize() { _, _, _ = unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0) }
