package procfs

import (
	"os"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// TestHasOwnRoot: this process and its children have its root, one in another mount namespace has
// not.
func TestHasOwnRoot(t *testing.T) {
	if !HasOwnRoot(os.Getpid()) || HasOwnRoot(1<<30) {
		t.Error("this process, or one that is gone")
	}
	testenv.Need(t, testenv.Root)
	for _, c := range []struct {
		attr syscall.SysProcAttr
		want bool
	}{
		{syscall.SysProcAttr{}, true},
		{syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}, false},
	} {
		cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestHasOwnRootChild$")
		cmd.SysProcAttr = &c.attr
		cmd.Env = append(os.Environ(), "OWN_ROOT_CHILD=1")
		in, out := testenv.Piped(t, cmd)
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Errorf("%+v: %v", c.attr, err)
		}
		if got := HasOwnRoot(cmd.Process.Pid); got != c.want {
			t.Errorf("%+v: %v", c.attr, got)
		}
		in.Close()
		_ = cmd.Wait()
	}
}

// TestHasOwnRootChild is a process of TestHasOwnRoot.
func TestHasOwnRootChild(t *testing.T) {
	if os.Getenv("OWN_ROOT_CHILD") != "" {
		os.Stdout.WriteString(".\n")
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
}
