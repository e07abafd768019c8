package symbol

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
)

// TestFakeJVMChild maps a file called libjvm.so in a root of its own, as nobody,
// and does in its /tmp what TestFakeJVM asks for.
func TestFakeJVMChild(t *testing.T) {
	root := os.Getenv("FAKE_JVM_ROOT")
	if root == "" {
		return
	}
	f, err := os.Open(root + "/libjvm.so")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ|syscall.PROT_EXEC, syscall.MAP_PRIVATE); err != nil {
		t.Fatal(err)
	}
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	err = errors.Join(syscall.Chroot(root), os.Chdir("/"), syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("up")
	<-quit
	fmt.Println("quit")
	if os.Getenv("FAKE_JVM_ANSWER") == "" {
		select {} // until killed
	}
	pid := strconv.Itoa(os.Getpid())
	st, err := os.Stat("/tmp/.attach_pid" + pid)
	if err != nil || int(st.Sys().(*syscall.Stat_t).Uid) != nobody {
		t.Fatal(st, err)
	}
	l, err := net.Listen("unix", "/tmp/.java_pid"+pid)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Read(make([]byte, 100))
	_, _ = conn.Write([]byte(os.Getenv("FAKE_JVM_ANSWER")))
	conn.Close()
	select {}
}

const nobody = 65534

// fakeJVM starts one whose root is as prepare leaves it, and asks it for its perf
// map until it answers, or has got the signal if it has no answer.
func fakeJVM(t *testing.T, answer string, prepare func(root string, pid int)) error {
	t.Helper()
	root := t.TempDir()
	testenv.Need(t, testenv.Got("user 65534", os.Chown(root, nobody, nobody), "invalid argument"))
	if err := errors.Join(os.Chmod(root, 0o755), os.WriteFile(root+"/libjvm.so", make([]byte, 4096), 0o644)); err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestFakeJVMChild$")
	cmd.Env = append(os.Environ(), "FAKE_JVM_ROOT="+root, "FAKE_JVM_ANSWER="+answer)
	cmd.Stderr = os.Stderr
	_, out := testenv.Piped(t, cmd)
	defer cmd.Wait()
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "up" {
		t.Fatalf("the child says %q", lines.Text())
	}
	prepare(root, cmd.Process.Pid)
	ps := NewProcesses(nil)
	defer ps.Close()
	p, err := ps.Process(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if answer == "" {
		go func() { lines.Scan(); cancel() }()
	}
	return p.WritePerfMap(ctx)
}

func tmpFor(t *testing.T, root string) {
	t.Helper()
	if err := errors.Join(os.Mkdir(root+"/tmp", 0o777), os.Chmod(root+"/tmp", 0o777)); err != nil {
		t.Fatal(err)
	}
}

// TestFakeJVM speaks the attach interface with a process of another user in
// another root.
func TestFakeJVM(t *testing.T) {
	testenv.Need(t, testenv.Root)
	var tmp string
	if err := fakeJVM(t, "0\n", func(root string, _ int) { tmp = root + "/tmp"; tmpFor(t, root) }); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(tmp + "/.attach*"); len(left) != 0 {
		t.Errorf("left behind: %s", left)
	}
	err := fakeJVM(t, "1\n\x1b[2Jno such command"+strings.Repeat("!", 60000), func(root string, _ int) { tmpFor(t, root) })
	if err == nil || !strings.Contains(err.Error(), `answered "1": "\x1b[2Jno`) || len(err.Error()) > 1000 {
		t.Errorf("the answer is not quoted, or without bound: %.1000v", err)
	}
}

// TestJVMAttackers: root's requests to a process that has made its /tmp, or a file
// in it, something else. The file that marks a request was made by root and then
// given away by its name: the process became the owner of any file.
func TestJVMAttackers(t *testing.T) {
	testenv.Need(t, testenv.Root)
	// victim is a directory that nobody can't enter, last changed long ago.
	victim := func(t *testing.T, mode os.FileMode) string {
		dir := t.TempDir()
		if err := errors.Join(os.Chmod(dir, mode), os.Chtimes(dir, time.Time{}, time.Unix(1e9, 0))); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	untouched := func(t *testing.T, dir string) {
		t.Helper()
		if st, err := os.Stat(dir); err != nil || !st.ModTime().Equal(time.Unix(1e9, 0)) {
			t.Errorf("a file was made in the victim's directory: %v, %v", st, err)
		}
	}
	t.Run("link", func(t *testing.T) {
		dir := victim(t, 0o700)
		err := fakeJVM(t, "", func(root string, _ int) {
			if err := os.Symlink(dir, root+"/tmp"); err != nil {
				t.Fatal(err)
			}
		})
		if err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("went on to the signal: %v", err)
		}
		untouched(t, dir)
	})
	t.Run("directory", func(t *testing.T) { // as one mounted over it
		var dir string
		err := fakeJVM(t, "", func(root string, _ int) {
			dir = root + "/tmp"
			if err := os.Rename(victim(t, 0o755), dir); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(dir, time.Time{}, time.Unix(1e9, 0)); err != nil {
				t.Fatal(err)
			}
		})
		if !errors.Is(err, os.ErrPermission) {
			t.Error(err)
		}
		untouched(t, dir)
	})
	t.Run("socket", func(t *testing.T) {
		// An abstract name would do for the service too, but links lead to paths.
		path := filepath.Join(t.TempDir(), "service")
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		err = fakeJVM(t, "", func(root string, pid int) {
			tmpFor(t, root)
			if err := os.Symlink(path, fmt.Sprintf("%s/tmp/.java_pid%d", root, pid)); err != nil {
				t.Fatal(err)
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		_ = l.SetDeadline(time.Unix(1, 0))
		if conn, err := l.Accept(); err == nil {
			conn.Close()
			t.Error("root was led to another service")
		}
	})
}
