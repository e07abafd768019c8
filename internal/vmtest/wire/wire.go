// Package wire defines the protocol between the host and a guest's init: a plan in a file of
// the initramfs, and lines on the console.
package wire

import "time"

// These are the first words of the lines that init prints, followed by a space.
const (
	Ready = "@vmtest-ready"
	Begin = "@vmtest-begin" // INDEX NAME
	End   = "@vmtest-end"   // INDEX EXIT SECONDS
	Left  = "@vmtest-left"  // INDEX WHAT: something that the job left in the kernel
	Warn  = "@vmtest-warn"  // INDEX LINE: a kernel warning during the job
	Error = "@vmtest-error" // the guest itself failed
)

// PlanFile is the path of the Plan in a guest's initramfs. Only guests have this file.
const PlanFile = "/vmtest.json"

// Plan contains the actions of a guest.
type Plan struct {
	// Modules are paths of kernel modules, in the order of loading.
	Modules []string
	// Root is the block device of a distribution's file system, or empty.
	Root string
	// Out is the block device to which the files in /out are written, or empty.
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
	// Chroot is the directory that the job uses as its root, or empty.
	Chroot string
	// Timeout limits its running time. After it, init sends SIGQUIT, for stack traces, and
	// then kills the job.
	Timeout time.Duration
}
