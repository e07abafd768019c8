package pmc

import (
	"io/fs"

	"github.com/borescope/borescope/internal/cpus"
)

// OnlineCPUs returns the CPUs that are running now, ascending: those that
// events can be opened on. They may be numbered with gaps, and are not
// runtime.NumCPU. A nil root is this machine.
func OnlineCPUs(root fs.FS) ([]int, error) { return cpus.Online(root) }

// PossibleCPUs returns the CPUs that may ever run, ascending: those that
// per-CPU BPF maps have slots for. A nil root is this machine.
func PossibleCPUs(root fs.FS) ([]int, error) { return cpus.Possible(root) }

// ParseCPUs reads a list of CPUs as the kernel and perf -C write it, "0-3,5",
// into ascending numbers.
func ParseCPUs(list string) ([]int, error) { return cpus.Parse(list) }
