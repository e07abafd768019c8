package stranger

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func statOf(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestOwner: root's and one's own files are trusted, unless another mount namespace
// shows them; of another user there is one, wherever their files are mapped.
func TestOwner(t *testing.T) {
	var s Share
	own := filepath.Join(t.TempDir(), "own")
	if err := os.WriteFile(own, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{own, "/proc/self/exe", "/etc/passwd"} {
		if o := s.Owner(os.Getpid(), statOf(t, path)); o != (Owner{}) {
			t.Errorf("%s is a stranger's: %+v", path, o)
		}
	}
	testenv.Need(t, testenv.Root)
	theirs := filepath.Join(t.TempDir(), "theirs")
	if err := os.WriteFile(theirs, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(theirs, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, "sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	for _, tt := range []struct {
		pid  int
		path string
		want Owner
	}{
		{os.Getpid(), own, Owner{}},
		{cmd.Process.Pid, own, Owner{stranger: true, namespace: namespaceOf(strconv.Itoa(cmd.Process.Pid), "mnt")}},
		{os.Getpid(), theirs, Owner{stranger: true, uid: 65534, namespace: namespaceOf("self", "mnt")}},
		{cmd.Process.Pid, theirs, Owner{stranger: true, uid: 65534, namespace: namespaceOf(strconv.Itoa(cmd.Process.Pid), "mnt")}},
	} {
		if o := s.Owner(tt.pid, statOf(t, tt.path)); o != tt.want {
			t.Errorf("%d %s: %+v, want %+v", tt.pid, tt.path, o, tt.want)
		}
	}
	if a, b := s.Owner(1<<30, statOf(t, own)), (Owner{}); a == b {
		t.Error("a file is trusted whose process is gone")
	}
}

// TestOneUserIsOne: a user of the machine, who has 65,536 users' files and as many
// namespaces as they like where they made a user namespace, is one stranger; of
// a user namespace that root made all of it is one.
func TestOneUserIsOne(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("unshare"))
	var s Share
	const nobody, mallory = 65534, 65533
	var files []fs.FileInfo
	for uid := 100_000; uid < 100_003; uid++ {
		path := filepath.Join(t.TempDir(), "file")
		if err := errors.Join(os.WriteFile(path, nil, 0o644), os.Chown(path, uid, uid)); err != nil {
			t.Fatal(err)
		}
		files = append(files, statOf(t, path))
	}
	const sleep = "echo; exec sleep 60"
	as := func(uid uint32, args ...string) int {
		return started(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}, args...)
	}
	root := func() int {
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100_000, Size: 65536}}
		attr := &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: ids, GidMappings: ids,
			Credential: &syscall.Credential{NoSetGroups: true},
		}
		return started(t, attr, "unshare", "-U", "sh", "-c", sleep)
	}
	same := as(nobody, "sh", "-c", sleep)
	for _, tt := range []struct {
		name string
		pids []int
		want func(o Owner) bool
	}{
		{"a user", []int{
			as(nobody, "unshare", "-r", "sh", "-c", sleep), as(nobody, "unshare", "-rm", "sh", "-c", sleep),
			as(nobody, "unshare", "-rm", "unshare", "-Um", "sh", "-c", sleep),
		}, func(o Owner) bool { return o == Owner{stranger: true, uid: nobody} }},
		{"another", []int{as(mallory, "unshare", "-r", "sh", "-c", sleep)}, func(o Owner) bool { return o == Owner{stranger: true, uid: mallory} }},
		{"a container of root's", []int{root()}, func(o Owner) bool { return o.stranger && o.uid == 0 && o.namespace != 0 }},
		{"a container beside it", []int{root()}, func(o Owner) bool { return o.stranger && o.uid == 0 && o.namespace != 0 }},
	} {
		first := s.Owner(tt.pids[0], files[0])
		for _, pid := range tt.pids {
			for _, f := range files {
				if o := s.Owner(pid, f); !tt.want(o) || o != first {
					t.Errorf("%s, process %d: %+v, and %+v before", tt.name, pid, o, first)
				}
			}
		}
	}
	if a, b := s.Owner(root(), files[0]), s.Owner(root(), files[0]); a == b {
		t.Errorf("two containers are one stranger: %+v", a)
	}
	for _, f := range files {
		if o, want := s.Owner(same, f), (Owner{stranger: true, uid: nobody, namespace: namespaceOf("self", "mnt")}); o != want {
			t.Errorf("a user's process: %+v, want %+v", o, want)
		}
	}
	if o := s.Owner(same, statOf(t, "/etc/passwd")); o != (Owner{}) {
		t.Errorf("root's file, which a user's process maps: %+v", o)
	}
}

// started runs a program that writes a line once it is what it is to be.
func started(t *testing.T, attr *syscall.SysProcAttr, args ...string) (pid int) {
	t.Helper()
	cmd := testenv.Command(t, args[0], args[1:]...)
	cmd.SysProcAttr = attr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if n, err := out.Read(make([]byte, 1)); n != 1 {
		t.Fatalf("%v does not run: %v", args, err)
	}
	return cmd.Process.Pid
}

func TestLoginUser(t *testing.T) {
	for text, want := range map[string]uint32{"": 0, "4294967295": 0, "0": 0, "1000": 1000, "1000\n": 1000, "x": 0} {
		if got := loginUser(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
