package procfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
)

// special makes what is no regular file in a directory, and returns the names
// with what the errors call them. A device needs CAP_MKNOD.
func special(t *testing.T, dir string) map[string]string {
	t.Helper()
	if err := errors.Join(unix.Mkfifo(dir+"/fifo", 0o666), os.Mkdir(dir+"/dir", 0o755)); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{"fifo": "a FIFO", "dir": "a directory"}
	switch err := unix.Mknod(dir+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err {
	case nil:
		names["null"] = "a device"
	case unix.EPERM, unix.EACCES:
		t.Log("without a device:", err)
	default:
		t.Fatal(err)
	}
	return names
}

// TestOpenRegular checks that only regular files are opened: FIFOs made root's tools wait
// forever, and devices were opened before their type was checked.
func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/file", []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b := make([]byte, 5); f.Name() != dir+"/file" {
		t.Errorf("called %s", f.Name())
	} else if n, _ := f.Read(b); string(b[:n]) != "text" {
		t.Errorf("read %q", b[:n])
	}
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Errorf("flags %#x, %v: a file that does not block is given to epoll", flags, err)
	}
	for name, what := range special(t, dir) {
		for how, open := range map[string]func(string) (fs.File, error){
			"Open":       func(path string) (fs.File, error) { return Open(path) },
			"OpenInRoot": func(path string) (fs.File, error) { return OpenInRoot(os.Getpid(), path, false) },
		} {
			f, err := open(filepath.Join(dir, name))
			var no *NotRegularError
			if !errors.As(err, &no) || no.Error() != what+", not a regular file" {
				t.Errorf("%s %s: %v, %v, want %s", how, name, f, err, what)
			}
		}
	}
	if _, err := Open(dir + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// TestOpenAgain: where /proc is not mounted a file is opened twice, and must be
// the same.
func TestOpenAgain(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"/a", "/b"} {
		if err := os.WriteFile(dir+name, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := lookup(dir+"/a", false)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	f, err := openAgain(fd, dir+"/a")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if f, err := openAgain(fd, dir+"/b"); err == nil {
		f.Close()
		t.Error("another file was taken for the one looked at")
	}
}

// TestTargetRoot: absolute symbolic links of a container were resolved in the
// host's root.
func TestTargetRoot(t *testing.T) {
	testenv.Need(t, testenv.Root)
	host, root := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(host+"/real", "host's")
	write(root+host+"/real", "target's")
	write(host+"/secret", "host's")
	for link, to := range map[string]string{"/link": host + "/real", "/secret": host + "/secret", "/up": "../../../../../.." + host + "/real", "/dir": host} {
		if err := os.Symlink(to, root+link); err != nil {
			t.Fatal(err)
		}
	}
	below := path(testenv.Rooted(t, root), "root")
	for name, want := range map[string]string{"/link": "target's", "/up": "target's", "/dir/real": "target's", "/secret": ""} {
		b, err := fs.ReadFile(Root(nil), below+name)
		if string(b) != want || want == "" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: read %q, %v", name, b, err)
		}
		if st, err := fs.Stat(Root(nil), below+name); (err == nil) != (want != "") || err == nil && st.Size() != int64(len(want)) {
			t.Errorf("%s: stat %v, %v", name, st, err)
		}
	}
	list, err := fs.Glob(Root(nil), below+"/dir/*")
	if err != nil || len(list) != 1 || list[0] != below+"/dir/real" {
		t.Errorf("listed %q, %v", list, err)
	}
	if es, err := fs.ReadDir(Root(nil), below); err != nil || len(es) != 5 {
		t.Errorf("root has %v, %v", es, err)
	}
}

func TestTargetPath(t *testing.T) {
	for path, want := range map[string]string{
		"/proc/12/root/a": "/a", "/proc/12/root": "", "/proc/12/root/": "/",
		"/proc/12/rootless": "-", "/proc/012/root/a": "-", "/proc/-1/root/a": "-", "/proc/self/root/a": "-",
		"/proc/12/exe": "-", "/proc/12": "-", "/proc/": "-", "12/root": "-", "": "-",
	} {
		pid, name, ok := TargetPath(path)
		if ok != (want != "-") || ok && (pid != 12 || name != want) {
			t.Errorf("%s: %d %q %v", path, pid, name, ok)
		}
	}
}
