package symbol

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/privileges"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/testenv"
)

// ordinaryVar has the processes that the test binary names: PID,PID.
const ordinaryVar = "SYMBOL_ORDINARY"

// TestOrdinaryPrograms: what is refused to strangers is not taken from those who do what
// everybody does. Each program is named by root, by a tool of root's that has given up its
// privileges, and by its own user, where that user may look at it at all.
func TestOrdinaryPrograms(t *testing.T) {
	if pids := os.Getenv(ordinaryVar); pids != "" {
		nameOrdinary(t, pids)
		return
	}
	testenv.Need(t, testenv.Native, testenv.Root, testenv.Arch("amd64"))
	const nobody = 65534
	const function = "aaaa" // the beginning of its name
	image := elfbuild.Program(elfbuild.SymbolTable{N: 1, Size: 4096, Names: len(function)}.Sections()...).Bytes()
	base := t.TempDir()
	for _, dir := range []string{filepath.Dir(base), base} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	user := &syscall.Credential{Uid: nobody, Gid: nobody}
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: nobody, Size: 1}}
	memfd := func() string {
		fd, err := unix.MemfdCreate("program", 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		if _, err := unix.Write(fd, image); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	}
	names, pids := []string{}, []string{}
	own := map[string]string{} // what its own user is told
	for i, p := range []struct {
		name  string
		mode  fs.FileMode
		owner int
		start func(*testenv.Cmd)
		after func(path string) error
		own   string
	}{
		{name: "root's, run by root", mode: 0o755, own: "denied"},
		{name: "root's, run by another", mode: 0o755, start: func(c *testenv.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Credential: user} }, own: function},
		{name: "mode 0711", mode: 0o711, start: func(c *testenv.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Credential: user} }, own: "denied"},
		{name: "set-uid", mode: 0o755 | fs.ModeSetuid, start: func(c *testenv.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Credential: user} }, own: "denied"},
		{name: "one's own", mode: 0o700, owner: nobody, start: func(c *testenv.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Credential: user} }, own: function},
		{name: "deleted", mode: 0o755, start: func(c *testenv.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Credential: user} }, after: os.Remove, own: ReasonNoFile.String()},
		{name: "in memory", start: func(c *testenv.Cmd) { c.Path = memfd() }, own: "denied"},
		{name: "root's user and pid namespace", mode: 0o755, start: func(c *testenv.Cmd) {
			c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, UidMappings: ids, GidMappings: ids}
		}, own: "denied"},
		{name: "other root directory", mode: 0o755, start: func(c *testenv.Cmd) {
			c.SysProcAttr = &syscall.SysProcAttr{Chroot: base, Credential: user}
			c.Path = strings.TrimPrefix(c.Path, base)
		}, own: function},
	} {
		path := filepath.Join(base, fmt.Sprintf("program%d", i))
		if err := os.WriteFile(path, image, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chown(path, p.owner, -1), os.Chmod(path, p.mode)); err != nil {
			t.Fatal(err)
		}
		cmd := testenv.Command(t, path)
		if cmd.Dir = "/"; p.start != nil {
			p.start(cmd)
		}
		if err := cmd.Start(); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		if p.after != nil {
			if err := p.after(path); err != nil {
				t.Fatal(err)
			}
		}
		pid := fmt.Sprint(cmd.Process.Pid)
		names, pids, own[pid] = append(names, p.name), append(pids, pid), p.own
	}
	self := filepath.Join(base, "test") // where everybody may execute it
	copyFile(t, "/proc/self/exe", self)
	for _, as := range []struct {
		name string
		env  string
		cred *syscall.Credential
	}{
		{name: "root"}, {name: "root without privileges", env: "drop"}, {name: "nobody", cred: user},
	} {
		cmd := testenv.Command(t, self, "-test.run=^TestOrdinaryPrograms$")
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), ordinaryVar+"="+strings.Join(pids, ","), "SYMBOL_DROP="+as.env)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as.cred}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("as %s: %v: %s", as.name, err, out)
		}
		for i, pid := range pids {
			want := function
			if as.cred != nil {
				want = own[pid]
			}
			if !strings.Contains(string(out), pid+" "+want+"\n") {
				t.Errorf("as %s: %s (process %s): want %q in\n%s", as.name, names[i], pid, want, out)
			}
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// nameOrdinary prints the name of the first address of each process's program.
func nameOrdinary(t *testing.T, pids string) {
	if os.Getenv("SYMBOL_DROP") != "" {
		if err := privileges.Keep(privileges.Alone(t.Context()), "test", false); err != nil {
			t.Fatal(err)
		}
	}
	ps := NewProcesses(nil)
	defer ps.Close()
	for text := range strings.SplitSeq(pids, ",") {
		var pid int
		fmt.Sscan(text, &pid)
		fmt.Println(pid, nameFirst(ps, pid))
	}
}

func nameFirst(ps *Processes, pid int) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return "denied"
	}
	defer f.Close()
	var at uint64
	err = procfs.ReadMaps(f, func(m *procfs.Mapping) bool {
		if strings.Contains(m.Path, "program") && m.Perm&procfs.Exec != 0 {
			at = m.Start
		}
		return true
	})
	if err != nil {
		return "denied"
	}
	p, err := ps.Process(pid)
	if err != nil {
		return err.Error()
	}
	fr := p.Resolve(nil, []uint64{at})[0]
	if fr.Name == "" {
		return fr.Reason.String()
	}
	return fr.Name[:4]
}
