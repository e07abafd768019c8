package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
)

// TestWalk: the walk ends where the kernel's own does (RESOLVE_IN_ROOT), over random trees of
// directories, files and links, and random paths.
func TestWalk(t *testing.T) {
	seed := uint64(os.Getpid())
	rnd := rand.New(rand.NewPCG(seed, 1))
	found := 0
	by := []*User{nil, {}} // root may read all: name by name, without the kernel's help
	for range 20 {
		root := t.TempDir()
		names := randomTree(t, rnd, root)
		at, err := unix.Open(root, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			var parts []string
			for range 1 + rnd.IntN(6) {
				parts = append(parts, names[rnd.IntN(len(names))])
			}
			path := strings.Join(parts, "/")
			got, gerr := (&walker{pid: os.Getpid(), as: by[rnd.IntN(2)]}).lookupBelow(at, path)
			want, werr := unix.Openat2(at, "./"+path, &unix.OpenHow{
				Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
			})
			if werr != nil {
				if !errors.Is(gerr, werr) {
					t.Errorf("seed %d: %q: %v, want %v", seed, path, gerr, werr)
				}
				unix.Close(got)
				continue
			}
			if gerr != nil {
				t.Errorf("seed %d: %q: %v", seed, path, gerr)
				unix.Close(want)
				continue
			}
			found++
			var a, b unix.Stat_t
			if err := errors.Join(unix.Fstat(got, &a), unix.Fstat(want, &b), unix.Close(got), unix.Close(want)); err != nil {
				t.Fatal(err)
			}
			if a.Dev != b.Dev || a.Ino != b.Ino {
				t.Errorf("seed %d: %q is another file", seed, path)
			}
		}
		unix.Close(at)
	}
	if found < 200 { // some 400 of 6,000 do
		t.Errorf("only %d paths led somewhere", found)
	}
}

// randomTree makes directories, files and links, and returns names for random paths.
func randomTree(t *testing.T, rnd *rand.Rand, root string) []string {
	t.Helper()
	names := []string{"..", ".", "", "none"}
	dirs := []string{root}
	for i := range 20 {
		name := fmt.Sprint("n", i)
		names = append(names, name)
		path := filepath.Join(dirs[rnd.IntN(len(dirs))], name)
		var err error
		switch rnd.IntN(4) {
		case 0:
			err = os.WriteFile(path, nil, 0o644)
		case 1:
			to := strings.Repeat("../", rnd.IntN(4)) + names[rnd.IntN(len(names))]
			if rnd.IntN(2) == 0 {
				to = "/" + names[rnd.IntN(len(names))] + "/" + names[rnd.IntN(len(names))]
			}
			if to == "" {
				to = "."
			}
			err = os.Symlink(to, path)
		default:
			err = os.Mkdir(path, 0o755)
			dirs = append(dirs, path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// TestOpenOwn: a file in /tmp is read as a process's own with that process's rights. A link of
// nobody's there to a file of root's was opened, and so was a file of root's.
func TestOpenOwn(t *testing.T) {
	testenv.Need(t, testenv.Root)
	const nobody = 65534
	root := t.TempDir()
	tmp := root + "/tmp"
	write := func(name string, mode os.FileMode, uid int) {
		t.Helper()
		path := root + name
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), mode),
			os.Chmod(path, mode), os.Chown(path, uid, uid)); err != nil {
			t.Fatal(err)
		}
	}
	write("/secret", 0o600, 0)
	write("/open", 0o644, 0)
	write("/open-dir/file", 0o644, nobody)
	write("/closed/file", 0o644, nobody)
	write("/tmp/own", 0o600, nobody)
	write("/tmp/roots", 0o644, 0)
	write("/tmp/unreadable", 0o000, nobody)
	for link, to := range map[string]string{
		"/tmp/link": "/secret", "/tmp/openlink": "/open", "/tmp/ownlink": "own", "/tmp/dir": "/open-dir",
		"/tmp/closed": "/closed",
	} {
		if err := os.Symlink(to, root+link); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(tmp, 0o777|os.ModeSticky), os.Chmod(root+"/closed", 0o700), os.Chmod(root, 0o755),
		os.Chmod(filepath.Dir(root), 0o755)); err != nil {
		t.Fatal(err)
	}
	pid := testenv.Rooted(t, root)
	for _, c := range []struct {
		name          string
		uid           int
		own, readable bool // by OpenOwn, by OpenFor
	}{
		{"/tmp/own", nobody, true, true},
		{"/tmp/roots", nobody, false, true},
		{"/tmp/link", nobody, false, false},
		{"/tmp/openlink", nobody, false, true},
		{"/tmp/ownlink", nobody, false, true},
		{"/tmp/dir/file", nobody, true, true},
		{"/tmp/closed/file", nobody, false, false},
		{"/tmp/unreadable", nobody, false, false},
		{"/secret", nobody, false, false},
		{"/secret", 0, true, true},
		{"/tmp/own", 0, false, true},
		{"/none", nobody, false, false},
	} {
		u := User{UID: c.uid, GID: c.uid}
		for _, how := range []struct {
			name string
			open func(User, int, string) (fs.File, error)
			want bool
		}{{"OpenOwn", OpenOwn, c.own}, {"OpenFor", OpenFor, c.readable}} {
			f, err := how.open(u, pid, c.name)
			if (err == nil) != how.want {
				t.Errorf("%s %s by %d: %v", how.name, c.name, c.uid, err)
			}
			if err == nil {
				f.Close()
			}
		}
	}
	const again = "PROCFS_WITHOUT_SETUID"
	if os.Getenv(again) != "" {
		if err := OnThread(func() error { return Become(nobody, nobody, nil) }); err == nil {
			t.Error("this process may take another user's rights")
		}
		return
	}
	testenv.Need(t, testenv.Tool("setpriv"))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, "setpriv", "--bounding-set=-setuid,-setgid", self, "-test.run=^TestOpenOwn$", "-test.v")
	cmd.Env = append(os.Environ(), again+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestOpenOwn") {
		t.Errorf("where another user's rights can't be taken: %v\n%s", err, out)
	}
}

// TestPseudo: in a process's root nothing of the kernel's own file systems is read: a link to
// /proc/kmsg made root wait for ever.
func TestPseudo(t *testing.T) {
	root := t.TempDir()
	if err := os.Symlink("/proc/self/maps", root+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/proc/self/maps", "/sys/kernel/notes", root + "/link"} {
		var served *ServedError
		if f, err := OpenInRoot(os.Getpid(), name, false); !errors.As(err, &served) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	if f, err := OpenInRoot(os.Getpid(), "/proc/none", false); !errors.Is(err, fs.ErrNotExist) {
		var served *ServedError
		if !errors.As(err, &served) {
			t.Errorf("/proc/none: %v, %v", f, err)
		}
	}
}

// TestMemfd: a program in memory is on no mount that a table shows.
func TestMemfd(t *testing.T) {
	fd, err := unix.MemfdCreate("program", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	f, err := Open(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func TestParseMount(t *testing.T) {
	for line, want := range map[string]mountEntry{
		"36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw,errors=continue": {36, "98:0", "ext3", "rw,errors=continue"},
		"700 1 0:55 / /h\\040x rw shared:1 master:2 - fuse.sshfs host: rw,user_id=1000": {700, "0:55", "fuse.sshfs", "rw,user_id=1000"},
		"28 27 0:25 / /x ro - tmpfs none ro,size=4k":                                    {28, "0:25", "tmpfs", "ro,size=4k"},
		"": {}, "x 1 0:1 / / rw - a b c": {}, "1 2 3": {}, "1 2 0:1 / / rw": {},
	} {
		e, ok := parseMount(line)
		if e != want || ok != (want != mountEntry{}) {
			t.Errorf("%q: %+v, %v", line, e, ok)
		}
	}
	if got := (&mountEntry{options: "rw,user_id=0,group_id=5"}).option("user_id"); got != "0" {
		t.Errorf("user_id is %q", got)
	}
}
