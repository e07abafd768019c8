package procfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
)

// servedVar makes the test binary a program that serves its own files.
const servedVar = "PROCFS_SERVED"

// TestServed: nothing is read, looked up or asked for on a file system that a stranger's
// process serves, nor on an overlay of one. That process does not answer: whatever asks it
// waits for ever. An overlay over it was taken for a file system of the kernel's.
func TestServed(t *testing.T) {
	if dir := os.Getenv(servedVar); dir != "" {
		if err := serveOwnFiles(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	testenv.Need(t, testenv.Guest, testenv.Root, testenv.Mounts)
	if err := os.Chmod("/dev/fuse", 0o666); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: nobody, Size: 1}}
	cmd := testenv.Command(t, self, "-test.run=^TestServed$")
	cmd.Env = append(os.Environ(), servedVar+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: ids, GidMappings: ids,
		Credential: &syscall.Credential{NoSetGroups: true},
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "up" {
		said = append(said, lines.Text())
	}
	overlay := len(said) == 0 // else why there is none
	testenv.Stop(t, cmd)
	pid := cmd.Process.Pid
	answer := make(chan struct{})
	go func() {
		defer close(answer)
		checkServedProcess(t, pid, dir, overlay)
	}()
	select {
	case <-answer:
	case <-time.After(time.Minute):
		t.Error("the server was asked for something")
	}
	t.Log(said)
}

func checkServedProcess(t *testing.T, pid int, dir string, overlay bool) {
	refused := func(what string, err error) {
		t.Helper()
		var served *ServedError
		if !errors.As(err, &served) {
			t.Errorf("%s: %v", what, err)
		} else {
			t.Logf("%s: %v", what, err)
		}
	}
	f, err := os.Open(procFile(pid, "maps"))
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	mapped := 0
	err = ReadMaps(f, func(m *Mapping) bool {
		if strings.HasPrefix(m.Path, dir) {
			mapped++
			_, err := OpenMapped(pid, m, false)
			refused("mapped "+m.Path, err)
		}
		return true
	})
	want := 1
	if overlay {
		want = 3
	}
	if err != nil || mapped != want {
		t.Errorf("%d mapped files, want %d, %v", mapped, want, err)
	}
	nobody := User{UID: 65534, GID: 65534}
	for _, name := range []string{"/fuse/program", "/fuse/none", "/fuse/none/none", "/link/program", "/overlay/program", "/overlay/none"} {
		if !overlay && strings.HasPrefix(name, "/overlay") {
			continue
		}
		_, err := OpenInRoot(pid, dir+name, false)
		refused("path "+name, err)
		_, err = OpenOwn(nobody, pid, dir+name)
		refused("own "+name, err)
	}
	if overlay {
		// With the caller's word for it, also of files that nobody serves (rootless containers).
		for _, served := range []bool{false, true} {
			f, err := OpenInRoot(pid, dir+"/container/program", served)
			if !served {
				refused("container", err)
			} else if err != nil {
				t.Error(err)
			} else {
				f.Close()
			}
		}
		if f, err := OpenServed(fmt.Sprintf("/proc/%d/root%s/container/program", pid, dir)); err != nil {
			t.Error(err)
		} else {
			f.Close()
		}
		_, err := OpenInRoot(pid, dir+"/overlay/none", true) // nor for longer than others
		refused("allowed", err)
	}
	if f, err := OpenInRoot(pid, dir+"/plain", false); err != nil {
		t.Errorf("beside it: %v", err)
	} else {
		f.Close()
	}
}

func procFile(pid int, name string) string { return "/" + path(pid, name) }

// serveOwnFiles mounts a file system that it serves itself, and an overlay over it, maps a
// file of each, and answers until it is stopped.
func serveOwnFiles(dir string) error {
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("/dev/fuse: %w", err)
	}
	for _, d := range []string{"/fuse", "/overlay", "/lower", "/layer", "/container"} {
		if err := os.Mkdir(dir+d, 0o755); err != nil {
			return err
		}
	}
	if err := errors.Join(os.WriteFile(dir+"/plain", nil, 0o644), os.Symlink("fuse", dir+"/link")); err != nil {
		return err
	}
	if err := unix.Mount("own", dir+"/fuse", "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev)); err != nil {
		return fmt.Errorf("mount fuse: %w", err)
	}
	go testenv.ServeFUSE(dev, program)
	if err := mapProgram(dir + "/fuse/program"); err != nil {
		return err
	}
	// Since Linux 5.11 in a user namespace.
	err = unix.Mount("own", dir+"/overlay", "overlay", 0, fmt.Sprintf("lowerdir=%s/fuse:%s/lower", dir, dir))
	if err == nil {
		err = mapProgram(dir + "/overlay/program")
	}
	if err == nil {
		err = os.WriteFile(dir+"/layer/program", program, 0o755)
	}
	if err == nil {
		err = unix.Mount("own", dir+"/container", "overlay", 0, fmt.Sprintf("lowerdir=%s/layer:%s/lower", dir, dir))
	}
	if err == nil {
		err = mapProgram(dir + "/container/program")
	}
	if err != nil {
		fmt.Println("overlay:", err)
	}
	fmt.Println("up")
	_, err = io.Copy(io.Discard, os.Stdin)
	for err == nil {
		time.Sleep(time.Hour)
	}
	return err
}

// mapProgram maps a file that this process may serve. os.Open would add it to the runtime's epoll,
// for which the kernel asks the server: Go's runtime stops no thread in that call, and so waits
// for ever if it collects garbage meanwhile, with the server.
func mapProgram(name string) error {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	_, err = unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	return os.NewSyscallError("mmap "+name, err)
}

// TestServedByRoot: what root mounts in this mount namespace is read if root serves it too, or
// if it is an overlay. The kernel is told to read nothing that a process serves.
func TestServedByRoot(t *testing.T) {
	testenv.Need(t, testenv.Guest, testenv.Root, testenv.Mounts)
	if !testenv.OwnMounts(t) {
		return
	}
	dir := t.TempDir()
	for _, d := range []string{"/lower", "/upper", "/work", "/overlay", "/fuse0", "/fuse1"} {
		if err := os.Mkdir(dir+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("tmpfs", dir+"/lower", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/lower/file", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("overlay", dir+"/overlay", "overlay", 0, fmt.Sprintf("lowerdir=%s/lower:%s/work", dir, dir)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, d := range []string{"/overlay", "/lower"} {
			if err := unix.Unmount(dir+d, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
	})
	f, err := OpenInRoot(os.Getpid(), dir+"/overlay/file", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckAttachable(int(f.(*os.File).Fd()), os.Getpid()); err != nil {
		t.Error(err)
	}
	f.Close()
	for user, name := range map[int]string{0: "/fuse0", 1000: "/fuse1"} {
		// Nobody answers.
		dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=0,allow_other", dev, user)
		if err := unix.Mount("served", dir+name, "fuse", 0, options); err != nil {
			t.Fatal(err)
		}
		at, err := unix.Open(dir+name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckServed(at, os.Getpid()); (err == nil) != (user == 0) {
			t.Errorf("served by user %d: %v", user, err)
		}
		if err := CheckAttachable(at, os.Getpid()); err == nil {
			t.Errorf("served by user %d: attachable", user)
		}
		if err := errors.Join(unix.Close(at), unix.Unmount(dir+name, unix.MNT_DETACH), unix.Close(dev)); err != nil {
			t.Error(err)
		}
	}
}
