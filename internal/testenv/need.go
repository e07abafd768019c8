package testenv

import (
	"errors"
	"fmt"
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

// SkipPrefix begins the reason of every test that Need skips.
const SkipPrefix = "SKIP-NEED: "

// Requirement is something that a test may need. Compare them with nothing;
// pass them to Need.
type Requirement struct {
	name  string
	check func() error // nil error: met
}

// String is what reasons to skip begin with, before a colon.
func (r Requirement) String() string { return r.name }

// What tests need.
var (
	// Root: user 0, with the capabilities that BPF and perf events ask for.
	Root = Requirement{"root", checkRoot}
	// Tracefs: mounted, or to be had without (TracefsDir).
	Tracefs = Requirement{"tracefs", checkTracefs}
	// Mounts: leave to mount, and to make a namespace of mounts.
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

	// Guest: a guest of internal/vmtest, where a test may do as it likes.
	Guest = Requirement{"guest", func() error {
		if !InGuest() {
			return errors.New("not in a guest of internal/vmtest")
		}
		return nil
	}}
	// Long: not -short, for what takes long.
	Long = Requirement{"no -short", func() error {
		if testing.Short() {
			return errors.New("it is set")
		}
		return nil
	}}
	// Go: a go command that can build this module, with its dependencies at
	// hand. Guests have none, and another user may not read the cache.
	Go = Requirement{"go", sync.OnceValue(checkGo)}
)

// Libc and Bash are where a test finds them, for OwnFiles.
var (
	Libc = []string{
		"/lib/*/libc.so.6", "/lib64/libc.so.6", "/usr/lib/*/libc.so.6",
		"/usr/lib64/libc.so.6",
	}
	Bash = []string{"/bin/bash", "/usr/bin/bash"}
)

// Feature is the requirement that feature.Test says yes.
func Feature(f feature.Feature) Requirement {
	return Requirement{f.String(), func() error { return feature.Test(f) }}
}

// Tool is the requirement that a program is in PATH.
func Tool(name string) Requirement {
	return Requirement{"tool " + name, func() error {
		if _, err := exec.LookPath(name); err != nil {
			return errors.New("not found")
		}
		return nil
	}}
}

// checkGo has the go command find a package of a dependency.
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

// Tracepoint is the requirement that tracefs can be had and lists the event.
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

// TracefsDir returns the directory of tracefs, until the test ends: where it is
// mounted, or one that only this process sees. The test needs Tracefs.
func TracefsDir(t testing.TB) string {
	t.Helper()
	d, err := tracefs.Here()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return "/" + d.Path
}

// CPUs is the requirement of so many CPUs that this process may use.
func CPUs(n int) Requirement {
	return Requirement{fmt.Sprintf("%d CPUs", n), func() error {
		if have := runtime.NumCPU(); have < n {
			return fmt.Errorf("there are %d", have)
		}
		return nil
	}}
}

// File is the requirement that a file exists and can be read.
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

// OS is the requirement of one of these systems, as GOOS names them.
func OS(names ...string) Requirement {
	return Requirement{strings.Join(names, " or "), func() error {
		if !slices.Contains(names, runtime.GOOS) {
			return errors.New("this is " + runtime.GOOS)
		}
		return nil
	}}
}

// Arch is the requirement of one of these architectures, as GOARCH names them.
func Arch(names ...string) Requirement {
	return Requirement{strings.Join(names, " or "), func() error {
		if !slices.Contains(names, runtime.GOARCH) {
			return errors.New("this is " + runtime.GOARCH)
		}
		return nil
	}}
}

// Got is the requirement that something could be made or was found: err is nil.
func Got(name string, err error) Requirement {
	return Requirement{name, func() error { return err }}
}

// InGuest reports whether this is a guest of internal/vmtest: a variable alone, which
// anybody may set, lets no test do as it likes.
func InGuest() bool {
	_, err := os.Stat(wire.PlanFile)
	return err == nil && os.Getenv("BORESCOPE_GUEST") != ""
}

// Need skips the test unless all requirements are met. The reason names every
// one that is not, with its true cause; without a proven cause the test fails.
// It also has the files that the test leaves open attributed to it, if the
// package's TestMain calls Main. It is not for tests that run side by side
// (t.Parallel): the output does not always tell which of them a line is of.
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

// SkipUnsupported skips the test if err is an *UnsupportedError with a proven
// cause, and does nothing otherwise. It is for what only the attempt can tell.
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

// cause is the part of the error that says why, in one line.
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

// unproven says what is wrong with the reason to skip, or nothing.
func unproven(err error) string {
	var no *feature.UnsupportedError
	var dunno *feature.UnknownError
	switch {
	case errors.As(err, &no):
		return contradiction(no)
	case errors.As(err, &dunno) && checkRoot() == nil:
		return "root could not tell"
	}
	return ""
}

// contradiction checks the cause that a refusal gives against the machine.
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
