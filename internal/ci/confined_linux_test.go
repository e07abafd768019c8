package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/testlog"
)

// roleEnv makes the test binary a program that leaves something behind.
const roleEnv = "CI_LEAVE"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && (os.Args[1] == confineFlag || os.Args[1] == nobodyFlag) {
		main()
	}
	if role := os.Getenv(roleEnv); role != "" {
		if err := leave(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testenv.Main(m)
}

// leave leaves one thing behind.
func leave(role string) error {
	pid := strconv.Itoa(os.Getpid())
	switch role {
	case "file":
		return os.WriteFile(filepath.Join(os.TempDir(), "left"), nil, 0o600)
	case "file /tmp":
		return os.WriteFile("/tmp/.left_pid", nil, 0o600)
	case "file /var/tmp":
		return os.WriteFile("/var/tmp/left", nil, 0o600)
	case "file /dev/shm":
		return os.WriteFile("/dev/shm/left", nil, 0o600)
	case "mount tmpfs":
		return unix.Mount("tmpfs", "/mnt", "tmpfs", 0, "")
	case "cgroup ":
		return os.Mkdir(cgroup2()+"/left", 0o755)
	case "cgroup.subtree_control":
		return os.WriteFile(cgroup2()+"/cgroup.subtree_control", []byte(os.Getenv("CI_CONTROLLER")), 0)
	case "SysV shm":
		_, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, 0o600)
		return err
	case "event":
		dir, err := tracefsDir()
		if err != nil {
			return err
		}
		return appendTo(dir+"/uprobe_events", "p:borescope/p"+pid+"_0 /bin/sleep:0x1000")
	case "BPF map", "pin":
		m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
		if err != nil {
			return err
		}
		if role == "pin" {
			return m.Pin(bpffs() + "/left")
		}
		return sendAway(m.FD())
	case "process":
		// In a session of its own, without the environment, and not in the step's group.
		cmd := &os.ProcAttr{Env: []string{}, Sys: &unix.SysProcAttr{Setsid: true}}
		_, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, cmd)
		return err
	case "read-only":
		return os.WriteFile("/etc/left", nil, 0o600)
	case "sysctl":
		return os.WriteFile("/proc/sys/kernel/printk_delay", []byte("0"), 0)
	}
	return nil
}

// sendAway sends a descriptor to the test, which keeps it, and waits until the observer has
// had time to see it.
func sendAway(fd int) error {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: os.Getenv("CI_KEEPER")})
	if err != nil {
		return err
	}
	defer c.Close()
	_, _, err = c.WriteMsgUnix([]byte("x"), unix.UnixRights(fd), nil)
	time.Sleep(time.Second)
	return err
}

func cgroup2() string { return mountPoint("cgroup2") }

func bpffs() string { return mountPoint("bpf") }

func mountPoint(fstype string) string {
	for _, m := range mountTable() {
		if m.fstype == fstype {
			return m.dir
		}
	}
	return ""
}

func tracefsDir() (string, error) {
	if dir := mountPoint("tracefs"); dir != "" {
		return dir, nil
	}
	return "/sys/kernel/tracing", unix.Mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, "")
}

func appendTo(file, line string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(line + "\n")
	return err
}

// harmlessRun runs the test binary in a role as a step, and returns the step's error.
func harmlessRun(t *testing.T, role string, env ...string) error {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	if err := os.Chmod(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	c := &check{out: &log, tmp: tmp, patience: 300 * time.Millisecond}
	_, err = harmless(func(ctx context.Context, c *check) (testlog.Counts, error) {
		return testlog.Counts{}, c.exec(ctx, append(env, roleEnv+"="+role), self)
	})(t.Context(), c)
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, log.String())
	}
	return err
}

// TestLeftIsSeen: a step that leaves one of everything that a test could leave fails, and the
// error says what.
func TestLeftIsSeen(t *testing.T) {
	testenv.Need(t, testenv.Long, testenv.Root, testenv.Mounts, testenv.Tracefs, testenv.Uprobes, testenv.Tool("sleep"), testenv.Go)
	if !testenv.OwnMounts(t) {
		return
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	testenv.MountTracefs(t)
	testenv.Cgroup2(t)
	if err := unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	keeper, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@ci-keeper-" + strconv.Itoa(os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	kept := make(chan int, 1)
	go keep(keeper, kept)
	roles := []string{
		"file", "file /tmp", "file /var/tmp", "file /dev/shm", "mount tmpfs", "cgroup ", "SysV shm", "event",
		"pin", "process", "BPF map",
	}
	env := []string{"CI_KEEPER=" + keeper.Addr().String()}
	if b, _ := os.ReadFile(cgroup2() + "/cgroup.subtree_control"); strings.Contains(string(b), "pids") {
		roles = append(roles, "cgroup.subtree_control")
		env = append(env, "CI_CONTROLLER=+pids")
	}
	for _, role := range roles {
		err := harmlessRun(t, role, env...)
		if err == nil || !strings.Contains(err.Error(), "left on this machine:\n"+role) {
			t.Errorf("%s: %v", role, err)
		}
	}
	keeper.Close()
	if fd := <-kept; fd >= 0 {
		unix.Close(fd)
	}
	for _, role := range []string{"read-only", "sysctl"} {
		if err := harmlessRun(t, role); err == nil || !strings.Contains(err.Error(), "read-only file system") {
			t.Errorf("%s: %v", role, err)
		}
	}
	if err := harmlessRun(t, "nothing"); err != nil {
		t.Error(err)
	}
	dir, err := tracefsDir()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(dir + "/uprobe_events")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if _, event, ok := strings.Cut(line, ":borescope/"); ok && strings.Contains(event, "/bin/sleep:") {
			name, _, _ := strings.Cut(event, " ")
			if err := appendTo(dir+"/uprobe_events", "-:borescope/"+name); err != nil {
				t.Error(err)
			}
		}
	}
}

// keep receives a descriptor and keeps it open, so that what it refers to stays.
func keep(l *net.UnixListener, kept chan<- int) {
	c, err := l.AcceptUnix()
	if err != nil {
		kept <- -1
		return
	}
	defer c.Close()
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := c.ReadMsgUnix(make([]byte, 1), oob)
	if err == nil {
		if ms, err := unix.ParseSocketControlMessage(oob[:n]); err == nil && len(ms) == 1 {
			if fds, err := unix.ParseUnixRights(&ms[0]); err == nil && len(fds) == 1 {
				kept <- fds[0]
				return
			}
		}
	}
	kept <- -1
}

// TestNeighbours: what others on this machine make while a step runs is not the step's. It
// was: a login's control group failed the check.
func TestNeighbours(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Go)
	if !testenv.OwnMounts(t) {
		return
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	group := testenv.Cgroup2(t) + "/ci-neighbour-" + strconv.Itoa(os.Getpid())
	made := make(chan error, 1)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	c := &check{out: io.Discard, tmp: tmp, patience: 300 * time.Millisecond}
	var program *ebpf.Program
	_, err = harmless(func(ctx context.Context, c *check) (testlog.Counts, error) {
		go func() {
			err := os.Mkdir(group, 0o755)
			if err == nil {
				err = os.WriteFile("/tmp/"+filepath.Base(group), nil, 0o600)
			}
			if err == nil {
				program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
					Type: ebpf.SocketFilter, License: "GPL",
					Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
				})
			}
			made <- err
		}()
		if err := <-made; err != nil {
			return testlog.Counts{}, err
		}
		return testlog.Counts{}, c.exec(ctx, []string{roleEnv + "=nothing"}, self)
	})(t.Context(), c)
	if err != nil {
		t.Error(err)
	}
	if program != nil {
		program.Close()
	}
	os.Remove(group)
	os.Remove("/tmp/" + filepath.Base(group))
}
