package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// fuseVar names the file that the test's child answers for.
const fuseVar = "PROBE_FUSE"

// TestFUSE: a program for whose file a process answers is probed by Unsafe alone.
func TestFUSE(t *testing.T) {
	if name := os.Getenv(fuseVar); name != "" {
		program, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		testenv.ServeFUSE(3, program)
		return
	}
	testenv.Need(t, testenv.Root, testenv.Guest, testenv.Mounts, testenv.Uprobes)
	if !testenv.OwnMounts(t) {
		return
	}
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	testenv.Need(t, testenv.Got("/dev/fuse", err, "no such device"))
	server := testenv.Command(t, "/proc/self/exe", "-test.run=^TestFUSE$")
	server.Env = append(os.Environ(), fuseVar+"="+probetest.TargetPath())
	server.ExtraFiles = []*os.File{dev}
	dir := t.TempDir()
	if err := unix.Mount("served", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev.Fd())); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	dev.Close()
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		server.Process.Kill()
		server.Wait()
	})
	path := filepath.Join(dir, "program")
	w := probetest.StartCommand(t, testenv.Command(t, path))
	for text, want := range map[string]uint64{
		"uprobe:" + path + ":add": probetest.Times, fmt.Sprintf("uprobe::add pid=%d", w.PID()): probetest.Times, "usdt:" + path + ":target:twice": 2 * probetest.Times,
	} {
		target := mustParse(t, text)
		if _, err := Resolve(nil, []Target{target}, nil); err == nil || !strings.Contains(err.Error(), "FUSE") {
			t.Errorf("%s: %v", text, err)
		}
		plan, err := Resolve(nil, []Target{target}, &Options{Unsafe: true})
		if err != nil {
			t.Fatal(err)
		}
		n := loadCounter(t, plan, probetest.Counting{Value: -1})
		// A plan that doesn't say which file it was made from.
		whose := plan.Files
		plan.Files = nil
		if l, err := plan.Attach(n.progs, nil); err == nil || !strings.Contains(err.Error(), "FUSE") {
			t.Errorf("%s attached: %v", text, err)
			l.Close()
		}
		plan.Files = whose
		l, err := plan.Attach(n.progs, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.Run()
		if got := n.read(t, 0).Count; got != want {
			t.Errorf("%s: counted %d, want %d", text, got, want)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
