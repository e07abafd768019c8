package usdt_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/usdt"
)

// TestModulesInContainer runs a program in mount and pid namespaces and a root
// of its own: its path means nothing outside of them.
func TestModulesInContainer(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("cc"))
	root := t.TempDir()
	source := filepath.Join(root, "prog.c")
	src := "#include <sys/sdt.h>\n#include <unistd.h>\nint main(void) { DTRACE_PROBE1(inside, probe, 5); write(1, \"x\", 1); pause(); }\n"
	if err := os.WriteFile(source, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := testenv.Command(t, "cc", "-static", "-o", filepath.Join(root, "prog"), source).CombinedOutput(); err != nil {
		testenv.Need(t, testenv.Got("cc -static with sys/sdt.h", fmt.Errorf("%w: %s", err, out), append([]string{"cannot find -lc"}, testenv.NoSDT...)...))
	}
	cmd := testenv.Command(t, "/prog")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		testenv.Need(t, testenv.Got("namespaces", err, "operation not permitted", "no space left"))
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	modules, err := usdt.Modules(cmd.Process.Pid, nil)
	if err != nil || len(modules) != 1 {
		t.Fatalf("%+v, %v", modules, err)
	}
	m := modules[0]
	if len(m.Sites) != 1 || m.Sites[0].Provider != "inside" || m.Err != nil {
		t.Errorf("%+v", m)
	}
	// What Attach names is the very file, from here.
	got, err := os.ReadFile(m.Attach)
	want, _ := os.ReadFile(filepath.Join(root, "prog"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %v", m.Attach, err)
	}
	t.Log(fmt.Sprint(m.Path, " ", m.Attach))
}
