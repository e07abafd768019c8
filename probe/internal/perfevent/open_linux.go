package perfevent

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/internal/procfs"
)

// Open opens the event, disabled, and returns its file descriptor.
func (ev *Event) Open() (int, error) {
	if ev.Attr.Flags.Precise() > 0 {
		// Programs on precise events get a stack only from the sample's own
		// (bpf_get_stackid_pe, kernel/bpf/stackmap.c).
		ev.Attr.SampleType |= kernel.SampleIP | kernel.SampleCallchain
	}
	pid, flags := ev.PID, uint(0)
	if ev.Cgroup != nil {
		pid, flags = int(ev.Cgroup.Fd()), kernel.PerfPIDCgroup
	}
	ev.Attr.Size = perfring.AttrSize
	ev.Attr.Flags |= perfring.AttrDisabled
	for {
		b, err := ev.Attr.AppendBinary(nil)
		if err != nil {
			return -1, err
		}
		fd, err := kernel.PerfEventOpen(b, ev.Path, pid, ev.CPU, -1, flags)
		level := ev.Attr.Flags.Precise()
		refused := errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EINVAL)
		if !ev.Lower || level == 0 || !refused {
			return fd, err
		}
		ev.Attr.Flags = ev.Attr.Flags.WithPrecise(level - 1)
	}
}

// Threads returns the ids of the threads of a process.
func Threads(pid int) ([]int, error) {
	entries, err := os.ReadDir(procfs.Dir(pid) + "/task")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, d := range entries {
		if tid, err := strconv.Atoi(d.Name()); err == nil {
			out = append(out, tid)
		}
	}
	return out, nil
}

// WaitForClone waits until each thread has slept since the call, because clone does not sleep,
// or has run for two ticks, ten times as long as clone takes. The ticks are of CPU time, so
// they are as long on a loaded machine. WaitForClone returns at end in any case: a thread that
// waits for a disk or for memory may take longer.
func WaitForClone(pid int, tids []int, end time.Time) {
	began := make(map[int]uint64) // the CPU time of each when first seen, in ticks
	left := slices.Clone(tids)
	for {
		left = slices.DeleteFunc(left, func(tid int) bool {
			st, err := procfs.ReadThreadStat(procfs.Root(nil), pid, tid)
			if err != nil || st.State != 'R' && st.State != 'D' {
				return true
			}
			ran, seen := began[tid]
			if !seen {
				began[tid] = st.Ran
			}
			return seen && st.Ran >= ran+2
		})
		if len(left) == 0 || time.Now().After(end) {
			return
		}
		time.Sleep(500 * time.Microsecond)
	}
}
