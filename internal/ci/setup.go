package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/testlog"
	"github.com/borescope/borescope/internal/vmtest/guest"
	"github.com/borescope/borescope/internal/vmtest/kernel"
)

// packages lists the packages that tests compare with and build their targets with. Tests are
// skipped if their tool is missing, so setup installs them.
var packages = []string{
	"binutils", "elfutils", "llvm", "gdb", "gcc", "g++", "libc6-dev", "cpio", "zstd", "xz-utils",
	"systemtap-sdt-dev", "bpftrace", "linux-perf", "dwz", "ruby",
}

// archPackages exist for one architecture only.
var archPackages = map[string][]string{"amd64": {"gcc-multilib"}}

var qemuPackages = []string{"qemu-system-x86", "qemu-system-arm"}

// backports is the suite with a QEMU of guest.MinQEMU or later, for a machine with an older
// one of its own.
const backports = "bookworm-backports"

// setup installs missing packages.
func setup(ctx context.Context, c *check) (testlog.Counts, error) {
	if os.Geteuid() != 0 {
		fmt.Fprintln(c.out, "not root: nothing is installed")
		return testlog.Counts{Skipped: 1}, nil
	}
	env := []string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}
	missing := notInstalled(slices.Concat(packages, archPackages[runtime.GOARCH]))
	needQEMU := guest.CheckQEMU("amd64") != nil || guest.CheckQEMU("arm64") != nil
	if len(missing) == 0 && !needQEMU {
		fmt.Fprintln(c.out, "everything is there")
		return testlog.Counts{}, nil
	}
	if err := c.exec(ctx, env, "apt-get", "update", "-q"); err != nil {
		return testlog.Counts{}, err
	}
	var errs []error
	install := []string{
		"-o", "DPkg::Lock::Timeout=300", "install", "-y", "-q",
		"--no-install-recommends",
	}
	if len(missing) > 0 {
		errs = append(errs, c.installTools(ctx, env, install, missing))
	}
	if needQEMU {
		errs = append(errs, c.installQEMU(ctx, env, install))
	}
	return testlog.Counts{}, errors.Join(errs...)
}

// installTools installs all packages at once or, if that fails, as many as possible.
func (c *check) installTools(ctx context.Context, env, install, names []string) error {
	if c.exec(ctx, env, "apt-get", slices.Concat(install, names)...) == nil {
		return nil
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, c.exec(ctx, env, "apt-get", slices.Concat(install, []string{name})...))
	}
	return errors.Join(errs...)
}

func notInstalled(names []string) []string {
	var missing []string
	for _, p := range names {
		out, err := exec.Command("dpkg-query", "-W", "-f", "${Status}", p).Output()
		if err != nil || !strings.HasSuffix(string(out), " installed") {
			missing = append(missing, p)
		}
	}
	return missing
}

// installQEMU installs the machine's own QEMU if that is new enough, else the one from
// backports.
func (c *check) installQEMU(ctx context.Context, env, install []string) error {
	if candidate(qemuPackages[0]) < guest.MinQEMU {
		line, err := kernel.SourceLine(backports)
		if err != nil {
			return err
		}
		const list = "/etc/apt/sources.list.d/borescope-backports.list"
		if err := os.WriteFile(list, []byte(line), 0o644); err != nil {
			return err
		}
		if err := c.exec(ctx, env, "apt-get", "update", "-q"); err != nil {
			return err
		}
		install = slices.Concat(install, []string{"-t", backports})
	}
	if err := c.exec(ctx, env, "apt-get", slices.Concat(install, qemuPackages)...); err != nil {
		return err
	}
	return errors.Join(guest.CheckQEMU("amd64"), guest.CheckQEMU("arm64"))
}

// candidate returns the major version that apt would install, 0 if there is none.
func candidate(pkg string) int {
	out, err := exec.Command("apt-cache", "policy", pkg).Output()
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(out)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "Candidate: "); ok {
			if _, after, epoch := strings.Cut(v, ":"); epoch {
				v = after
			}
			major, _, _ := strings.Cut(v, ".")
			n, _ := strconv.Atoi(major)
			return n
		}
	}
	return 0
}
