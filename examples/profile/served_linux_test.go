package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/testenv"
)

// servedVar makes the test binary the server of a program.
const servedVar = "PROFILE_SERVED"

// TestServedProgram: a program that runs from a file that a process serves, which does not
// answer, is sampled; the run ends in time, and says that the program has no names, and why. It
// waited for the server.
func TestServedProgram(t *testing.T) {
	if os.Getenv(servedVar) != "" {
		testenv.ServeFUSE(3, elfbuild.Program().Bytes())
		return
	}
	testenv.Need(t, testenv.Guest, testenv.Root, testenv.Perf, testenv.Mounts, testenv.Arch("amd64"), testenv.File("/dev/fuse"))
	if !testenv.OwnMounts(t) {
		return
	}
	for _, c := range []struct {
		name string
		user int // who serves
		args []string
		want string
	}{
		{"stranger", 1000, nil, "-unsafe"},
		{"stranger, allowed", 1000, []string{"-unsafe"}, "does not answer"},
		{"root", 0, nil, "does not answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			server := testenv.Command(t, "/proc/self/exe", "-test.run=^TestServedProgram$")
			server.Env = append(os.Environ(), servedVar+"=yes")
			server.ExtraFiles = []*os.File{dev}
			dir := t.TempDir()
			options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=0,allow_other", dev.Fd(), c.user)
			if err := unix.Mount("served", dir, "fuse", 0, options); err != nil {
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
			program := testenv.Command(t, filepath.Join(dir, "program"))
			if err := program.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { program.Process.Kill(); program.Wait() })
			if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			cmd := self(t, append(c.args, "-d", "1s", "-p", strconv.Itoa(program.Process.Pid))...)
			cmd.Stdout, cmd.Stderr = &out, &out
			start := time.Now()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- cmd.Wait() }()
			select {
			case err = <-done:
			case <-time.After(time.Minute):
				t.Fatal("it waits for the server")
			}
			line := ""
			for l := range strings.Lines(out.String()) {
				if strings.HasPrefix(l, "Not named: ") {
					line = l
				}
			}
			t.Logf("after %v, %v: %s", time.Since(start), err, line)
			if err != nil || !strings.Contains(line, c.want) || !strings.Contains(line, dir+"/program") {
				t.Errorf("want %q and the program in the last line of\n%s", c.want, out.String())
			}
		})
	}
}
