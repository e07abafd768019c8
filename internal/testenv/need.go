package testenv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/tracefs"
	"github.com/borescope/borescope/internal/vmtest/wire"
)

// SkipPrefix is the beginning of the reason of every test that Need skips.
const SkipPrefix = "SKIP-NEED: "

// Requirement is something that a test may need. It is only for passing to Need; do not
// compare it.
type Requirement struct {
	name  string
	check func() error // nil error: the requirement is met
}

// String returns the name that precedes the colon in a reason to skip.
func (r Requirement) String() string { return r.name }

// These are requirements of tests.
var (
	// Root: user 0, with the capabilities for BPF and perf events.
	Root = Requirement{"root", checkRoot}
	// Tracefs: mounted, or accessible without a mount (TracefsDir).
	Tracefs = Requirement{"tracefs", checkTracefs}
	// Mounts: permission to mount, and to create a mount namespace.
	Mounts = Requirement{"mounting", checkMounts}

	// BTF: the kernel's own type information.
	BTF = Feature(feature.BTF)
	// Kprobes: kprobes and kretprobes.
	Kprobes = Feature(feature.Kprobe)
	// KprobeMulti: kprobe.multi links.
	KprobeMulti = Feature(feature.KprobeMulti)
	// Fentry: fentry and fexit programs.
	Fentry = Feature(feature.Fentry)
	// TPBTF: typed raw tracepoints.
	TPBTF = Feature(feature.TPBTF)
	// Uprobes: uprobes and uretprobes.
	Uprobes = Feature(feature.Uprobe)
	// UprobeMulti: uprobe.multi links.
	UprobeMulti = Feature(feature.UprobeMulti)
	// Perf: BPF programs on software perf events.
	Perf = Feature(feature.Perf)
	// PMU: a hardware PMU that counts cycles.
	PMU = Feature(feature.HardwarePMU)
	// BranchStack: a PMU that records branches.
	BranchStack = Feature(feature.BranchStack)
	// Watchpoint: hardware breakpoints that fire.
	Watchpoint = Feature(feature.Watchpoint)
	// Ringbuf: BPF ring buffers.
	Ringbuf = Feature(feature.Ringbuf)

	// Guest: a guest of internal/vmtest, in which a test may change anything.
	Guest = Requirement{"guest", func() error {
		if !InGuest() {
			return errors.New("not in a guest of internal/vmtest")
		}
		return nil
	}}
	// Native: no guest of internal/vmtest. The test asks nothing of the kernel, and takes long on an
	// emulated machine.
	Native = Requirement{"no guest", func() error {
		if InGuest() {
			return errors.New("a guest of internal/vmtest; the test is the same on every kernel")
		}
		return nil
	}}
	// Long: the environment variable BORESCOPE_LONG=1 asks for tests that take long, as the
	// check (.ci/run) does, and -short is not set.
	Long = Requirement{"BORESCOPE_LONG=1", func() error {
		if testing.Short() {
			return errors.New("-short is set")
		}
		if os.Getenv("BORESCOPE_LONG") != "1" {
			return errors.New("it is not set")
		}
		return nil
	}}
	// Go: a go command that can build this module without downloading its dependencies. Guests
	// have none, and another user may be unable to read the cache.
	Go = Requirement{"go", sync.OnceValue(checkGo)}
)

// Libc and Bash are patterns for their paths, for OwnFiles.
var (
	Libc = []string{
		"/lib/*/libc.so.6", "/lib64/libc.so.6", "/usr/lib/*/libc.so.6",
		"/usr/lib64/libc.so.6",
	}
	Bash = []string{"/bin/bash", "/usr/bin/bash"}
)

// Feature returns the requirement that feature.Test supports the feature.
func Feature(f feature.Feature) Requirement {
	return Requirement{f.String(), func() error { return feature.Test(f) }}
}

// Tool returns the requirement that a program is in PATH.
func Tool(name string) Requirement {
	return Requirement{"tool " + name, func() error {
		if _, err := exec.LookPath(name); err != nil {
			return errors.New("not found")
		}
		return nil
	}}
}

// checkGo checks that the go command finds a package of a dependency.
func checkGo() error {
	if err := Tool("go").check(); err != nil {
		return err
	}
	cmd := exec.Command("go", "list", "github.com/cilium/ebpf")
	cmd.Env = append(os.Environ(), "GOPROXY=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("can't build this module: %s", first)
	}
	return nil
}

// Tracepoint returns the requirement that tracefs is accessible and lists the event.
func Tracepoint(group, name string) Requirement {
	return Requirement{"tracepoint " + group + ":" + name, func() error {
		d, err := tracefs.Here()
		if err != nil {
			return err
		}
		defer d.Close()
		return File("/" + d.Path + "/events/" + group + "/" + name + "/id").check()
	}}
}

func checkTracefs() error {
	d, err := tracefs.Here()
	if err != nil {
		return err
	}
	return d.Close()
}

// TracefsDir returns the directory of tracefs, which is valid until the test ends: its mount,
// or a mount that only this process can access. The test needs Tracefs.
func TracefsDir(t testing.TB) string {
	t.Helper()
	d, err := tracefs.Here()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return "/" + d.Path
}

// CPUs returns the requirement that this process may use at least n CPUs.
func CPUs(n int) Requirement {
	return Requirement{fmt.Sprintf("%d CPUs", n), func() error {
		if have := runtime.NumCPU(); have < n {
			return fmt.Errorf("there are %d", have)
		}
		return nil
	}}
}

// File returns the requirement that a file exists and can be read.
func File(path string) Requirement {
	return Requirement{path, func() error {
		f, err := os.Open(path)
		if err != nil {
			var pe *os.PathError
			if errors.As(err, &pe) {
				return pe.Err
			}
			return err
		}
		return f.Close()
	}}
}

// OS returns the requirement that the system is one of these, in GOOS's spelling.
func OS(names ...string) Requirement {
	return Requirement{strings.Join(names, " or "), func() error {
		if !slices.Contains(names, runtime.GOOS) {
			return errors.New("this is " + runtime.GOOS)
		}
		return nil
	}}
}

// Arch returns the requirement that the architecture is one of these, in GOARCH's spelling.
func Arch(names ...string) Requirement {
	return Requirement{strings.Join(names, " or "), func() error {
		if !slices.Contains(names, runtime.GOARCH) {
			return errors.New("this is " + runtime.GOARCH)
		}
		return nil
	}}
}

// Got returns the requirement that something was created or found: err is nil. Another error
// is a reason to skip if it is an *UnsupportedError, or means that something does not exist or
// is not supported, or is not permitted to others than root, or if its text contains one of
// says: what the kernel or a program says of what is missing. For others the test fails.
func Got(name string, err error, says ...string) Requirement {
	return Requirement{name, func() error {
		if err == nil || missing(err) ||
			slices.ContainsFunc(says, func(s string) bool { return strings.Contains(err.Error(), s) }) {
			return err
		}
		return &otherError{err}
	}}
}

// otherError is an error that does not prove that something is missing.
type otherError struct{ error }

func (e *otherError) Unwrap() error { return e.error }

// missing reports whether an error alone proves that something is missing.
func missing(err error) bool {
	var no *feature.UnsupportedError
	var dunno *feature.UnknownError
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) ||
		errors.Is(err, errors.ErrUnsupported) || errors.As(err, &no) || errors.As(err, &dunno) ||
		errors.Is(err, fs.ErrPermission) && checkRoot() != nil
}

// NoSDT is what compilers say where sys/sdt.h, with its macros for USDT probes, is missing.
var NoSDT = []string{"sys/sdt.h: No such file", "'sys/sdt.h' file not found"}

// Missing returns a requirement that is not met, because of a fact that the test has found.
func Missing(name, fact string) Requirement {
	return Requirement{name, func() error { return errors.New(fact) }}
}

// Check returns the requirement that check returns nil.
func Check(name string, check func() error) Requirement { return Requirement{name, check} }

// Times returns how often a test repeats what it does: n times here, and fewer in a guest, where
// each costs ten times as much and none is less likely to fail than here.
func Times(n, guest int) int {
	if InGuest() {
		return guest
	}
	return n
}

// InGuest reports whether this is a guest of internal/vmtest. The environment variable alone,
// which any user can set, is not enough.
func InGuest() bool {
	_, err := os.Stat(wire.PlanFile)
	return err == nil && os.Getenv("BORESCOPE_GUEST") != ""
}

// Need skips the test unless all requirements are met. The reason lists every unmet one, with
// its true cause. If a cause is not proven, the test fails. If the package's TestMain calls
// Main, Need also makes Main report files that the test leaves open with the test's name. It
// must not be used in parallel tests (t.Parallel), because the output does not always show to
// which of them a line belongs.
func Need(t testing.TB, reqs ...Requirement) {
	t.Helper()
	watch(t)
	var unmet []string
	for _, r := range reqs {
		err := r.check()
		if err == nil {
			continue
		}
		if why := unproven(err); why != "" {
			t.Fatalf("%s is refused, but that is no reason to skip: %s: %v", r.name, why, err)
		}
		unmet = append(unmet, r.name+": "+cause(err))
	}
	if len(unmet) > 0 {
		t.Skip(SkipPrefix + strings.Join(unmet, "; "))
	}
}

// SkipUnsupported skips the test if err is an *UnsupportedError with a proven cause, and does
// nothing otherwise. It is for requirements that only the attempt can check.
func SkipUnsupported(t testing.TB, err error) {
	t.Helper()
	var no *feature.UnsupportedError
	if !errors.As(err, &no) {
		return
	}
	if why := unproven(err); why != "" {
		t.Fatalf("%s: %v", why, err)
	}
	t.Skip(SkipPrefix + no.Feature + ": " + cause(err))
}

// cause returns the part of the error that describes the cause, in one line.
func cause(err error) string {
	var no *feature.UnsupportedError
	var dunno *feature.UnknownError
	switch {
	case errors.As(err, &no) && no.Hint != "":
		return no.Hint
	case errors.As(err, &dunno) && dunno.Hint != "":
		return dunno.Hint
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// unproven returns what is wrong with the reason to skip, or "".
func unproven(err error) string {
	var no *feature.UnsupportedError
	var dunno *feature.UnknownError
	var other *otherError
	switch {
	case errors.As(err, &other):
		return "that may have any cause"
	case errors.As(err, &no):
		return contradiction(no)
	case errors.As(err, &dunno) && checkRoot() == nil:
		return "root could not tell"
	}
	return ""
}

// contradiction checks the cause that a refusal gives against the machine. It returns "" if
// there is no contradiction.
func contradiction(no *feature.UnsupportedError) string {
	if runtime.GOOS != "linux" {
		return ""
	}
	if no.Hint == "" {
		if no.Since != "" && !feature.KernelAtLeast(no.Since) {
			return ""
		}
		return "no cause is given"
	}
	if option, ok := strings.CutSuffix(no.Hint, " is not set"); ok {
		if v, _ := feature.KernelConfig(strings.TrimPrefix(option, "CONFIG_")); v != "" && v != "n" {
			return option + " is " + v
		}
	}
	if strings.HasSuffix(no.Hint, "is too old") && feature.KernelAtLeast(no.Since) {
		return "it is not too old for " + no.Since
	}
	return ""
}
