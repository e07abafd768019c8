// Command init is the whole user space of a test guest: process 1 of the initramfs that
// internal/vmtest builds. It mounts the file systems that tracers use, runs the jobs in
// /vmtest.json one after the other, reports on the console how each ended and what it left
// behind in the kernel, and powers the machine off.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/vmtest/wire"
)

func main() {
	// It mounts over /dev, /tmp and /run, and powers the machine off at the end.
	if !inGuest() {
		fmt.Fprintln(os.Stderr,
			"init: this is process 1 of a guest of internal/vmtest, and does nothing elsewhere")
		os.Exit(2)
	}
	if os.Getpid() != 1 {
		if err := work(); err != nil {
			fmt.Println(wire.Error, err)
		}
		return
	}
	// Process 1 adopts orphans, and waiting only for the known child would leave them as
	// zombies. So a child does the work, and process 1 only reaps.
	cmd := exec.Command("/init")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Println(wire.Error, err)
	} else {
		reapUntil(cmd.Process.Pid)
	}
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

// inGuest reports whether this is a guest: it has the file that only a guest's initramfs has,
// and runs as process 1 or its child.
func inGuest() bool {
	_, err := os.Stat(wire.PlanFile)
	return err == nil && (os.Getpid() == 1 || os.Getppid() == 1)
}

func reapUntil(pid int) {
	for {
		got, err := unix.Wait4(-1, nil, 0, nil)
		if got == pid || err != nil && err != unix.EINTR {
			return
		}
	}
}

func work() error {
	signal.Ignore(syscall.SIGHUP)
	if err := mountAll(); err != nil {
		return err
	}
	var plan wire.Plan
	b, err := os.ReadFile(wire.PlanFile)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &plan); err != nil {
		return err
	}
	if err := prepare(plan); err != nil {
		return err
	}
	var u unix.Utsname
	unix.Uname(&u)
	fmt.Println() // the firmware may have left the cursor inside a line
	fmt.Println(wire.Ready, unix.ByteSliceToString(u.Release[:]))
	for i, j := range plan.Jobs {
		runJob(i, j)
	}
	if plan.Out != "" {
		return sendOut(plan.Out)
	}
	return nil
}

type mount struct{ source, target, fstype string }

// mounts are in the order of mounting. The one of securityfs may fail.
var mounts = []mount{
	{"proc", "/proc", "proc"},
	{"sysfs", "/sys", "sysfs"},
	{"devtmpfs", "/dev", "devtmpfs"},
	{"devpts", "/dev/pts", "devpts"},
	{"tmpfs", "/dev/shm", "tmpfs"},
	{"tmpfs", "/tmp", "tmpfs"},
	{"tmpfs", "/run", "tmpfs"},
	{"securityfs", "/sys/kernel/security", "securityfs"},
	{"debugfs", "/sys/kernel/debug", "debugfs"},
	{"tracefs", "/sys/kernel/tracing", "tracefs"},
	{"bpf", "/sys/fs/bpf", "bpf"},
	{"cgroup2", "/sys/fs/cgroup", "cgroup2"},
}

func mountAll() error {
	for _, m := range mounts {
		os.MkdirAll(m.target, 0o755)
		err := unix.Mount(m.source, m.target, m.fstype, 0, "")
		if err != nil && m.target != "/sys/kernel/security" {
			return fmt.Errorf("mount %s on %s: %w", m.fstype, m.target, err)
		}
	}
	os.Chmod("/tmp", 0o1777)
	os.Symlink("/proc/self/fd", "/dev/fd")
	return nil
}

// prepare does what the plan requires before the first job.
func prepare(plan wire.Plan) error {
	for _, m := range plan.Modules {
		image, err := os.ReadFile(m)
		if err != nil {
			return err
		}
		if err := unix.InitModule(image, ""); err != nil && err != unix.EEXIST {
			return fmt.Errorf("load %s: %w", filepath.Base(m), err)
		}
		os.Remove(m)
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	// An emulated interrupt takes long by any clock, and the kernel would react by lowering
	// the maximum sample rate in the middle of a test. 0 means never.
	if err := os.WriteFile("/proc/sys/kernel/perf_cpu_time_max_percent", []byte("0"), 0); err != nil {
		return err
	}
	if plan.Root != "" {
		return mountRoot(plan.Root)
	}
	return nil
}

// loopbackUp brings lo up with 127.0.0.1; the kernel leaves it down.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr)
}

// mountRoot mounts a distribution's file system on /debian, with bind mounts of the kernel's
// file systems in it, for jobs that run another tool there.
func mountRoot(device string) error {
	const root = "/debian"
	os.MkdirAll(root, 0o755)
	var err error
	for range 50 { // the driver finds its disk shortly after loading
		if err = unix.Mount(device, root, "ext4", 0, ""); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("mount %s on %s: %w", device, root, err)
	}
	for from, to := range map[string]string{
		"/proc": "/proc", "/sys": "/sys", "/dev": "/dev", "/tmp": "/tmp", "/out": "/out",
		"/bin": "/vmtest", // the programs that the host added to the guest
	} {
		os.MkdirAll(root+to, 0o755)
		if err := unix.Mount(from, root+to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("bind %s: %w", from, err)
		}
	}
	return nil
}
