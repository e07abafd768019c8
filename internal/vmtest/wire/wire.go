// Package wire is what the host and a guest's init say to each other: a plan
// in a file of the initramfs, and lines on the console.
package wire

import "time"

// The lines that init writes begin with one of these, followed by a space.
const (
	Ready = "@vmtest-ready"
	Begin = "@vmtest-begin" // INDEX NAME
	End   = "@vmtest-end"   // INDEX EXIT SECONDS
	Left  = "@vmtest-left"  // INDEX WHAT: something that the job left in the kernel
	Warn  = "@vmtest-warn"  // INDEX LINE: a kernel warning during the job
	Error = "@vmtest-error" // the guest itself could not go on
)

// PlanFile is where a guest's initramfs has its Plan. Nothing but a guest has one.
const PlanFile = "/vmtest.json"

// Plan is what a guest does.
type Plan struct {
	// Modules are paths of kernel modules, in the order of loading.
	Modules []string
	// Root is the block device of a distribution's tree, or empty.
	Root string
	// Out is the block device that the files in /out are sent to, or empty.
	Out string
	// Jobs run one after the other.
	Jobs []Job
}

// Job is one process to run.
type Job struct {
	Name string
	Argv []string
	Dir  string
	Env  []string
	// Chroot is the directory that the job takes for its root, or empty.
	Chroot string
	// Timeout is how long it may run; it is then asked for its stacks with
	// SIGQUIT and killed.
	Timeout time.Duration
}
