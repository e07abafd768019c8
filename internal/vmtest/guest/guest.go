package guest

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/borescope/borescope/internal/testlog"
	"github.com/borescope/borescope/internal/vmtest/kernel"
	"github.com/borescope/borescope/internal/vmtest/wire"
)

// RootDir is the directory on which Options.Root is mounted.
const RootDir = "/debian"

// Options describes a run.
type Options struct {
	// Kernel is the kernel to boot.
	Kernel *kernel.Kernel
	// Jobs run one after the other. The timeout of a job without one is 5 minutes.
	Jobs []wire.Job
	// Files maps absolute paths in the guest to files or directories of this machine.
	Files map[string]string
	// Modules are the names of kernel modules to load first.
	Modules []string
	// Disks are raw images, which the guest sees as /dev/vda, /dev/vdb and so on. Writes to
	// them are dropped at the end. Their drivers are loaded.
	Disks []string
	// Root is an ext4 image with a distribution's file system, which is mounted on /debian.
	Root string
	// Out is a directory of this machine that receives the files that jobs write to /out.
	Out string
	// SMP is QEMU's -smp; "" means "2".
	SMP string
	// Nodes is the number of NUMA nodes, each with part of the memory and one CPU; 0 means a
	// machine without NUMA. It replaces SMP.
	Nodes int
	// Threads is QEMU's option: "multi" is one thread for each CPU, "single" one for all. ""
	// means "single": with several, the emulation sometimes loses the interrupt of a CPU's timer
	// or runs an instruction that another CPU is changing.
	Threads string
	// MemoryMiB is the guest's memory in addition to that for the initramfs; 0 means 1024.
	MemoryMiB int
	// Env is added to the jobs' environment, as NAME=VALUE.
	Env []string
	// Append is added to the kernel's arguments.
	Append string
	// Timeout ends a guest that hangs; 0 means the sum of the jobs' timeouts and two minutes.
	Timeout time.Duration
	// Log receives the guest's output as it arrives; nil discards it.
	Log io.Writer
}

// Report is the result of a run.
type Report struct {
	// Release is the output of uname -r, empty if the guest did not come up.
	Release string
	Jobs    []JobReport
	// Trouble is the reason why the guest as a whole failed: a panic, an oops, a CPU whose timer
	// never fires, a timeout, an error of init. It is empty if it did not.
	Trouble string
	// Wall is the time from the start of QEMU to its end.
	Wall time.Duration
}

// JobReport is the result of a job.
type JobReport struct {
	Name string
	// Status is "0" for success, else "exit:N", "signal:NAME", "timeout", or "unfinished" if
	// the guest ended first.
	Status string
	Took   time.Duration
	// Tests contains the results of a Go test binary.
	Tests []testlog.Result
	// Tail is the end of the job's output.
	Tail string
	// Left lists the objects that the job left behind in the kernel.
	Left []string
	// Warnings contains the headlines of kernel warnings during the job.
	Warnings []string
}

// OK reports whether the job succeeded, left nothing behind and caused no kernel warning.
func (j *JobReport) OK() bool {
	return j.Status == "0" && len(j.Left) == 0 && len(j.Warnings) == 0 &&
		testlog.Count(j.Tests).Failed == 0
}

// OK reports whether the guest came up and ended normally, and all its jobs are OK.
func (r *Report) OK() bool {
	for i := range r.Jobs {
		if !r.Jobs[i].OK() {
			return false
		}
	}
	return r.Trouble == "" && r.Release != ""
}

// Run boots a guest, runs the jobs, and returns a report. It returns an error if the guest
// could not be started, or its files not be received; the report contains problems inside the
// guest.
func Run(ctx context.Context, o Options) (*Report, error) {
	tmp, err := os.MkdirTemp("", "vmtest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	m, err := newMachine(&o, tmp)
	if err != nil {
		return nil, err
	}
	r, err := m.boot(ctx)
	if err != nil {
		return nil, err
	}
	if o.Out != "" && r.Trouble == "" {
		if err := receive(m.outDisk, o.Out); err != nil {
			return r, fmt.Errorf("files of the guest: %w", err)
		}
	}
	return r, nil
}

// receive unpacks the tar archive that the guest wrote to a disk.
func receive(disk, dir string) error {
	f, err := os.Open(disk)
	if err != nil {
		return err
	}
	defer f.Close()
	tr := tar.NewReader(f)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("%s: %w", h.Name, fs.ErrInvalid)
		}
		to := filepath.Join(dir, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(to, 0o755)
		case tar.TypeReg:
			err = writeFile(to, tr, h.FileInfo().Mode().Perm())
		}
		if err != nil {
			return err
		}
	}
}

func writeFile(path string, r io.Reader, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
