package feature

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Release returns the running kernel's release, "6.1.0-50-cloud-amd64".
func Release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// KernelConfig returns the value of an option ("KPROBES") in the running kernel's
// configuration: "y", "m", a number or string, or "" if it is not set. It reads
// /proc/config.gz or /boot/config-RELEASE, and returns an error if it can read neither.
func KernelConfig(option string) (string, error) {
	r, err := openConfig()
	if err != nil {
		return "", err
	}
	defer r.Close()
	return findOption(r, option)
}

type gzipFile struct {
	io.Reader
	io.Closer
}

func openConfig() (io.ReadCloser, error) {
	f, err := os.Open("/proc/config.gz")
	if err != nil {
		return os.Open("/boot/config-" + Release())
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("/proc/config.gz: %w", err)
	}
	return gzipFile{z, f}, nil
}

func findOption(r io.Reader, option string) (string, error) {
	want := "CONFIG_" + option + "="
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		if v, ok := strings.CutPrefix(sc.Text(), want); ok {
			return strings.Trim(v, `"`), nil
		}
	}
	return "", sc.Err()
}

// HasCap reports whether a capability is in the calling thread's effective set. CAP_SYS_ADMIN
// includes CAP_BPF and CAP_PERFMON (include/linux/capability.h: bpf_capable, perfmon_capable).
func HasCap(c Cap) bool {
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return os.Geteuid() == 0
	}
	set, err := strconv.ParseUint(statusField(status, "CapEff:"), 16, 64)
	if err != nil {
		return false
	}
	if (c == CapBPF || c == CapPerfmon) && set>>CapSysAdmin&1 == 1 {
		return true
	}
	return set>>c&1 == 1
}

func statusField(status []byte, key string) string {
	for line := range bytes.Lines(status) {
		if v, ok := bytes.CutPrefix(line, []byte(key)); ok {
			return string(bytes.TrimSpace(v))
		}
	}
	return ""
}

// Lockdown returns the kernel's lockdown level: "none", "integrity", "confidentiality", or ""
// if securityfs does not show it.
func Lockdown() string {
	b, err := os.ReadFile("/sys/kernel/security/lockdown")
	if err != nil {
		return ""
	}
	_, s, _ := strings.Cut(string(b), "[")
	s, _, _ = strings.Cut(s, "]")
	return s
}

// sysctl reads a number from a sysctl and reports whether it succeeded.
func sysctl(name string) (int, bool) {
	b, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	return n, err == nil
}

// denied converts EPERM or EACCES to the reason for it. If a capability is missing, or a
// filter of this process's own is active, the result is an *UnknownError, because the attempt
// did not reach the kernel's feature. Otherwise the kernel does not support it.
func denied(f Feature, err error) error {
	name := f.String()
	if hint := processHint(err); hint != "" {
		return &UnknownError{name, hint, err}
	}
	no := &UnsupportedError{Feature: name, Since: f.Since(), Hint: policyHint(), Err: err}
	if off, _ := configOff(f); off != "" {
		no.Hint = off
	} else if errors.Is(err, unix.EPERM) && memlockCounts() {
		return &UnknownError{name, "RLIMIT_MEMLOCK may be too small (ulimit -l)", err}
	}
	return no
}

// processHint describes what this process lacks, or what keeps its calls from the kernel. It
// is empty if there is nothing.
func processHint(err error) string {
	if missing := MissingCaps(CapBPF, CapPerfmon); len(missing) > 0 {
		return "needs " + joinCaps(missing) + sysctlHint(err)
	}
	if level, ok := sysctl("kernel/perf_event_paranoid"); ok {
		if hint := paranoidHint(level, HasCap(CapSysAdmin), err); hint != "" {
			return hint
		}
	}
	if status, err := os.ReadFile("/proc/thread-self/status"); err == nil {
		if m := statusField(status, "Seccomp:"); m != "" && m != "0" {
			return "a seccomp filter is active in this process"
		}
	}
	if !initialUserNamespace() {
		return "capabilities of a user namespace do not count: run in the initial one"
	}
	return ""
}

// Refused returns a *RefusedError if bpf(2) failed to create a map or load a program because
// of this process's limits or privileges, and err itself otherwise.
func Refused(err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return err
	}
	switch {
	case errno == unix.EMFILE:
		return &RefusedError{"out of file descriptors: raise RLIMIT_NOFILE (ulimit -n)", errno}
	case errno == unix.ENFILE:
		return &RefusedError{"the machine is out of open files: raise fs.file-max", errno}
	case errno != unix.EPERM: // EACCES comes from the verifier
		return err
	}
	if hint := processHint(err); hint != "" {
		return &RefusedError{hint, errno}
	}
	if memlockCounts() {
		return &RefusedError{"RLIMIT_MEMLOCK may be too small (ulimit -l)", errno}
	}
	// cilium/ebpf's guess, without a log of the verifier
	if strings.Contains(err.Error(), "MEMLOCK") {
		return &RefusedError{policyHint(), errno}
	}
	return err
}

// memlockCounts reports whether BPF programs and maps are charged to a limit of this process.
// Before 5.11 they are, with any capabilities.
func memlockCounts() bool {
	var l unix.Rlimit
	return !KernelAtLeast("5.11") &&
		unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) == nil && l.Cur != unix.RLIM_INFINITY
}

// paranoidHint returns a hint for Debian's and Ubuntu's kernels, which have a level above the
// highest of other kernels: at that level perf_event_open requires CAP_SYS_ADMIN; no other
// capability is enough. It is empty if that is not the cause.
func paranoidHint(level int, admin bool, err error) string {
	if level < 3 || admin || !errors.Is(err, unix.EACCES) {
		return ""
	}
	return fmt.Sprintf("kernel.perf_event_paranoid is %d, where this kernel gives perf events to CAP_SYS_ADMIN only: lower it to 2, or hold that", level)
}

func joinCaps(cs []Cap) string {
	names := make([]string, len(cs))
	for i, c := range cs {
		names[i] = c.String()
	}
	return strings.Join(names, " and ")
}

// sysctlHint returns the sysctl that makes a capability necessary.
func sysctlHint(err error) string {
	if errors.Is(err, unix.EACCES) {
		if n, ok := sysctl("kernel/perf_event_paranoid"); ok {
			return fmt.Sprintf(" (kernel.perf_event_paranoid is %d)", n)
		}
	}
	if n, ok := sysctl("kernel/unprivileged_bpf_disabled"); ok && n != 0 {
		return fmt.Sprintf(" (kernel.unprivileged_bpf_disabled is %d)", n)
	}
	return ""
}

// initialUserNamespace reports whether this process is in the initial user namespace, the only
// one that has the identity mapping of all ids by default.
func initialUserNamespace() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return true
	}
	f := strings.Fields(string(b))
	return len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == "4294967295"
}

// policyHint returns a hint for a kernel that refuses although all capabilities are held:
// lockdown, or another security module.
func policyHint() string {
	if l := Lockdown(); l == "confidentiality" {
		return "kernel lockdown is at confidentiality"
	}
	hint := "refused although all capabilities are held: a security policy of this kernel forbids it"
	if b, err := os.ReadFile("/sys/kernel/security/lsm"); err == nil {
		hint += " (active: " + strings.TrimSpace(string(b)) + ")"
	}
	return hint
}

// configOff returns the first option that a feature needs and this kernel does not have, and
// reports whether the configuration could be read.
func configOff(f Feature) (off string, known bool) {
	known = true
	for _, option := range specs[f].config {
		v, err := KernelConfig(option)
		if err != nil {
			return "", false
		}
		if v == "" || v == "n" {
			return "CONFIG_" + option + " is not set", true
		}
	}
	return "", known
}

// absent returns the error for a feature that is certainly missing. Its hint is the given one,
// if the probe found the cause, else it is derived from the configuration and the version.
func absent(f Feature, hint string, err error) error {
	no := &UnsupportedError{Feature: f.String(), Since: f.Since(), Hint: hint, Err: err}
	if hint != "" {
		return no
	}
	off, known := configOff(f)
	switch {
	case f.Since() != "" && !KernelAtLeast(f.Since()):
		no.Hint = "Linux " + Release() + " is too old"
	case off != "":
		no.Hint = off
	case !known:
		no.Hint = "needs CONFIG_" + strings.Join(specs[f].config, ", CONFIG_") +
			" (the kernel's configuration can't be read)"
	}
	return no
}
