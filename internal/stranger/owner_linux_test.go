package stranger

import (
	"io/fs"
	"os"
	"path/filepath"
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
		pid      int
		path     string
		uid      uint32
		stranger bool
		mounts   bool
	}{
		{os.Getpid(), own, 0, false, false},
		{cmd.Process.Pid, own, 0, true, true},
		{os.Getpid(), theirs, 65534, true, false},
		{cmd.Process.Pid, theirs, 65534, true, false},
	} {
		o := s.Owner(tt.pid, statOf(t, tt.path))
		if o.stranger != tt.stranger || o.uid != tt.uid || (o.mounts != 0) != tt.mounts {
			t.Errorf("%+v: %+v", tt, o)
		}
	}
	if a, b := s.Owner(1<<30, statOf(t, own)), (Owner{}); a == b {
		t.Error("a file is trusted whose process is gone")
	}
}

func TestLoginUser(t *testing.T) {
	for text, want := range map[string]uint32{"": 0, "4294967295": 0, "0": 0, "1000": 1000, "1000\n": 1000, "x": 0} {
		if got := loginUser(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
