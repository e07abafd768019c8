package probe

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// delegate makes a BPF file system of the child's user namespace, whose
// descriptor comes over the connection, one that gives tokens. Only a process
// with capabilities of the initial namespace may.
func delegate(conn *net.UnixConn) error {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		return fmt.Errorf("receive: %d messages, %w", len(msgs), err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	defer unix.Close(fds[0])
	for _, what := range []string{"delegate_cmds", "delegate_maps", "delegate_progs", "delegate_attachs"} {
		if err := unix.FsconfigSetString(fds[0], what, "any"); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	if err := unix.FsconfigCreate(fds[0]); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	_, err = conn.Write([]byte{'k'})
	return err
}

// mountDelegated mounts that file system, in the child.
func mountDelegated(t *testing.T, conn *net.UnixConn, dir string) {
	t.Helper()
	fs, err := unix.Fsopen("bpf", unix.FSOPEN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fs)
	if _, _, err := conn.WriteMsgUnix([]byte{'f'}, unix.UnixRights(fs), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal("no leave:", err)
	}
	m, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(m)
	if err := unix.MoveMount(m, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatal(err)
	}
}

// TestTokenChild runs in a user namespace for TestToken: without the mount it may
// do nothing, with it the usual counts are exact.
func TestTokenChild(t *testing.T) {
	dir := os.Getenv("BORESCOPE_TOKEN")
	if dir == "" {
		return
	}
	c, err := net.FileConn(os.NewFile(3, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	conn := c.(*net.UnixConn)
	defer conn.Close()
	if err := feature.Test(feature.UprobeMulti); err == nil {
		t.Error("a user namespace may attach without a token")
	}
	needs := Requires(nil, []Target{RawTracepoint{Name: "sys_enter"}})
	if !slices.ContainsFunc(needs, func(r Requirement) bool { return !r.Met() && strings.Contains(r.Missing, "delegate_cmds") }) {
		t.Errorf("nothing said of a token: %v", needs)
	}
	mountDelegated(t, conn, dir)
	if t.Run("counts", tokenCounts) {
		fmt.Println("all counted")
		os.Exit(0) // cilium/ebpf keeps its token open for good
	}
}

func tokenCounts(t *testing.T) {
	for _, r := range Requires(nil, []Target{RawTracepoint{Name: "sys_enter"}}) {
		if !r.Met() {
			t.Error(r)
		}
	}
	w := probetest.Start(t)
	for _, target := range []string{"uprobe:" + probetest.TargetPath() + ":add", "uretprobe:" + probetest.TargetPath() + ":helper_*"} {
		plan := mustResolve(t, nil, target)
		n, _ := attachCounter(t, plan, probetest.Counting{Value: -1})
		w.Run()
		probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times * uint64(len(plan.Programs[0].Sites))})
	}
	raw := mustResolve(t, &Options{NoTypes: true}, "rawtracepoint:sys_enter")
	n, _ := attachCounter(t, raw, probetest.Counting{Value: 8, Filter: 8, Equal: getppid()})
	w.Run()
	if got := n.read(t, 0); got.Count < probetest.Times || got.Sum != got.Count*uint64(getppid()) {
		t.Errorf("counted %+v, want %d or more (of all processes)", got, probetest.Times)
	}
}

// TestToken attaches from a user namespace that was given a BPF file system.
func TestToken(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.UprobeMulti, testenv.Feature(feature.Token), testenv.File("/proc/self/ns/user"))
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := os.NewFile(uintptr(pair[0]), "mine"), os.NewFile(uintptr(pair[1]), "theirs")
	defer mine.Close()
	c, err := net.FileConn(mine)
	if err != nil {
		t.Fatal(err)
	}
	conn := c.(*net.UnixConn)
	defer conn.Close()
	cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestTokenChild$", "-test.v")
	cmd.Env = append(os.Environ(), "BORESCOPE_TOKEN="+t.TempDir())
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: 0, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: 0, Size: 1}},
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	derr := delegate(conn)
	conn.Close() // or a child that waits for leave would wait for ever
	if err := cmd.Wait(); err != nil || derr != nil || !strings.Contains(out.String(), "all counted") {
		t.Errorf("child: %v, delegation: %v\n%s", err, derr, &out)
	}
}
