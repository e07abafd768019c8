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

// RootDir is where the tree of Options.Root is mounted.
const RootDir = "/debian"

// Options describe a run.
type Options struct {
	// Kernel is what to boot.
	Kernel *kernel.Kernel
	// Jobs run one after the other; a job without a timeout gets 5 minutes.
	Jobs []wire.Job
	// Files maps absolute paths in the guest to files or directories here.
	Files map[string]string
	// Modules are kernel modules to load first, by name.
	Modules []string
	// Disks are raw images, seen as /dev/vda, /dev/vdb and so on; writes to
	// them are dropped at the end. Their drivers are loaded.
	Disks []string
	// Root is an ext4 image with a distribution's tree, mounted on /debian.
	Root string
	// Out is a directory here that receives what the jobs put into /out.
	Out string
	// SMP is QEMU's -smp, "2" when empty.
	SMP string
	// Nodes is how many NUMA nodes there are, each with some of the memory and
	// one CPU; 0 is a machine without. It takes the place of SMP.
	Nodes int
	// Threads is QEMU's: "multi" is one for each CPU, "single" one for all, and
	// empty what QEMU takes by itself.
	Threads string
	// MemoryMiB is the guest's memory on top of what the initramfs takes;
	// 0 means 1024.
	MemoryMiB int
	// Env is added to the jobs' environment, as NAME=VALUE.
	Env []string
	// Append is added to the kernel's arguments.
	Append string
	// Timeout ends a guest that hangs; 0 means the jobs' timeouts and two
	// minutes.
	Timeout time.Duration
	// Log receives what the guest prints, as it comes; nil for nothing.
	Log io.Writer
}

// Report is what became of a run.
type Report struct {
	// Release is what uname -r said, empty if the guest did not come up.
	Release string
	Jobs    []JobReport
	// Trouble is why the guest as a whole failed: a panic, an oops, a
	// timeout, an init that could not go on. Empty if it did not.
	Trouble string
	// Wall is the time from the start of QEMU to its end.
	Wall time.Duration
	// Lost is what the kernel said about a timer that the emulator lost, after
	// which the guest was booted again; empty if it was booted once.
	Lost string
}

// JobReport is what became of a job.
type JobReport struct {
	Name string
	// Status is "0" for success, else "exit:N", "signal:NAME", "timeout", or
	// "unfinished" when the guest ended first.
	Status string
	Took   time.Duration
	// Tests are the tests of a Go test binary.
	Tests []testlog.Result
	// Tail is the end of what the job printed.
	Tail string
	// Left lists what the job left behind in the kernel.
	Left []string
	// Warnings are the headlines of kernel warnings during the job.
	Warnings []string
}

// OK reports whether the job succeeded, left nothing behind and did not
// trouble the kernel.
func (j *JobReport) OK() bool {
	return j.Status == "0" && len(j.Left) == 0 && len(j.Warnings) == 0 &&
		testlog.Count(j.Tests).Failed == 0
}

// OK reports whether the guest came up, went down in good order, and all its
// jobs are OK.
func (r *Report) OK() bool {
	for i := range r.Jobs {
		if !r.Jobs[i].OK() {
			return false
		}
	}
	return r.Trouble == "" && r.Release != ""
}

// Run boots a guest, runs the jobs, and reports. The error is for what kept
// the guest from starting; what went wrong inside is in the report.
//
// QEMU's emulation loses the interrupt of a CPU's timer now and then, on a busy
// host. The guest then stands for good, and its kernel says so. It is booted again
// then, once, and the report says that it was.
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
	if err == nil && r.Lost != "" {
		first := r.Lost
		if r, err = m.boot(ctx); err == nil {
			r.Lost = first
		}
	}
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

// receive unpacks the tar archive that the guest wrote onto a bare disk.
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
