package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
)

func checkRoot() error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("user %d", uid)
	}
	if missing := feature.MissingCaps(feature.CapBPF, feature.CapPerfmon); len(missing) > 0 {
		return fmt.Errorf("without %v", missing)
	}
	return nil
}

func checkMounts() error {
	if missing := feature.MissingCaps(feature.CapSysAdmin); len(missing) > 0 {
		return fmt.Errorf("without %v", missing)
	}
	return nil
}

// BPFFSDir returns a directory with a new BPF file system, which exists until the test ends.
// The test needs Root and Mounts. The file system is not mounted anywhere: it exists only as a
// descriptor of this process, and its pins end with that. Other processes that the test starts
// can access it by the same path.
func BPFFSDir(t testing.TB) string {
	t.Helper()
	dir, err := detachedBPFFS()
	if err != nil {
		t.Fatalf("BPF file system: %v", err)
	}
	t.Cleanup(func() { dir.Close() })
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), dir.Fd())
}

func detachedBPFFS() (*os.File, error) {
	ctx, err := unix.Fsopen("bpf", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(ctx)
	if err := errors.Join(unix.FsconfigSetString(ctx, "mode", "0700"),
		unix.FsconfigCreate(ctx)); err != nil {
		return nil, fmt.Errorf("fsconfig: %w", err)
	}
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("fsmount: %w", err)
	}
	return os.NewFile(uintptr(fd), "bpffs"), nil
}

// endWithParent makes the kernel kill the program when the thread that starts it ends.
func endWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// inOwnMounts is the variable with the name of the test that runs in its own mount namespace,
// fromMounts that with the namespace that it ran in before.
const (
	inOwnMounts = "BORESCOPE_OWN_MOUNTS"
	fromMounts  = "BORESCOPE_FROM_MOUNTS"
)

// OwnMounts runs the test, which must not be a subtest, again in a process with its own mount
// namespace, and returns true there. No other process sees its mounts and unmounts, and they
// end with it, even if it is killed. In the original process it returns false, and the test
// ends. The test needs Root and Mounts.
func OwnMounts(t *testing.T) bool {
	t.Helper()
	namespace, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	cmd := again(t, inOwnMounts)
	if cmd == nil {
		// The variable alone, which anybody can set, is not enough.
		if from := os.Getenv(fromMounts); from == "" || from == namespace {
			t.Fatalf("%s is set, but not the namespace of mounts that this test ran in before", inOwnMounts)
		}
		return true
	}
	cmd.Env = append(cmd.Env, fromMounts+"="+namespace)
	// With this flag, package syscall makes the new namespace's mounts private.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	passedOnce(t, "in a namespace of mounts", out, err)
	return false
}

// again returns the command that runs the test once more in its own process, marked by the
// variable, or nil in that process.
func again(t *testing.T, variable string) *Cmd {
	t.Helper()
	if os.Getenv(variable) == t.Name() {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"-test.run=^" + t.Name() + "$", "-test.v",
		"-test.short=" + strconv.FormatBool(testing.Short()),
	}
	for _, arg := range os.Args[1:] {
		if !strings.HasPrefix(arg, "-test.") { // the package's own flag
			args = append(args, arg)
		}
	}
	cmd := CommandContext(t.Context(), t, self, args...)
	cmd.Env = append(os.Environ(), variable+"="+t.Name())
	return cmd
}

// passedOnce fails the test unless its run in another process passed, or was skipped with a
// reason, with which it then skips the test.
func passedOnce(t *testing.T, where string, out []byte, err error) {
	t.Helper()
	if err == nil && bytes.Contains(out, []byte("--- SKIP: "+t.Name()+" ")) {
		if _, reason, ok := strings.Cut(string(out), SkipPrefix); ok {
			reason, _, _ = strings.Cut(reason, "\n")
			t.Skip(SkipPrefix + reason)
		}
	}
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name()+" ")) {
		t.Errorf("%s: %v\n%s", where, err, out)
	}
}

// MountTracefs mounts tracefs on the usual directory, if it is not mounted there. The test
// must run in OwnMounts.
func MountTracefs(t testing.TB) {
	t.Helper()
	const dir = "/sys/kernel/tracing"
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err == nil && st.Type == unix.TRACEFS_MAGIC {
		return
	}
	if err := unix.Mount("tracefs", dir, "tracefs", 0, ""); err != nil {
		t.Fatalf("mount tracefs: %v", err)
	}
}

// OwnTmp mounts an empty file system on /tmp, for programs that leave files there whatever
// TMPDIR says. The test must run in OwnMounts, and calls OwnTmp before it makes files of its
// own.
func OwnTmp(t testing.TB) {
	t.Helper()
	if err := unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777"); err != nil {
		t.Fatalf("mount tmpfs on /tmp: %v", err)
	}
}

// Cgroup2 returns the directory where version 2 of control groups is mounted. In a guest it
// mounts it if necessary.
func Cgroup2(t testing.TB) string {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); f[2] == "cgroup2" {
			return f[1]
		}
	}
	if !InGuest() {
		Need(t, Got("cgroup2", errors.New("not mounted")))
	}
	const dir = "/sys/fs/cgroup"
	if err := unix.Mount("cgroup2", dir, "cgroup2", 0, ""); err != nil {
		t.Fatalf("mount cgroup2: %v", err)
	}
	return dir
}

// UnmountAll unmounts every file system of the type. The test must run in OwnMounts.
func UnmountAll(t testing.TB, fstype string) {
	t.Helper()
	if err := Unmount(fstype); err != nil {
		t.Fatal(err)
	}
}

// Unmount unmounts every file system of the types, with all mounts on them, in this process's
// mount namespace.
func Unmount(types ...string) error {
	table, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	// The last mount is on top: a debugfs contains a tracefs.
	for _, line := range slices.Backward(slices.Collect(strings.Lines(string(table)))) {
		if f := strings.Fields(line); slices.Contains(types, f[2]) {
			if err := unix.Unmount(f[1], unix.MNT_DETACH); err != nil {
				return fmt.Errorf("unmount %s: %w", f[1], err)
			}
		}
	}
	return nil
}
