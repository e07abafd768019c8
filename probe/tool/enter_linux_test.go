package tool

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
)

// TestGoAfter: a program waits at its entry point, with its libraries in memory, and then does all that it
// does otherwise. It gets the signals that come meanwhile.
func TestGoAfter(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("cat"), testenv.Tool("sh"))
	for _, c := range []struct{ name, command, waits string }{
		{"program", "cat %s", "cat"},
		{"shell", "sh -c 'cat %s; exit 3'", "sh"},
		{"interpreter", "%s.sh", "sh"},
		{"killed", "sh -c 'cat %s; kill -9 $$'", "sh"},
		{"missing", "/no/such/program", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
			if err := os.WriteFile(from, []byte("text"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(from+".sh", []byte("#!/bin/sh\ncat "+from+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			command, err := StartCommand(strings.ReplaceAll(c.command, "%s", from)+" >"+to+" 2>/dev/null", os.Stderr)
			if err != nil {
				t.Fatal(err)
			}
			program := ""
			command.GoAfter(func() {
				proc := "/proc/" + strconv.Itoa(command.PID)
				exe, err := os.Readlink(proc + "/exe")
				if err != nil {
					t.Error(err)
				}
				program = filepath.Base(exe)
				want, err := exec.LookPath(c.waits)
				if err == nil {
					want, err = filepath.EvalSymlinks(want)
				}
				if err != nil || exe != want {
					t.Errorf("%s waits, want %s, %v", exe, want, err)
				}
				maps, err := os.ReadFile(proc + "/maps")
				if linked, dynamic := exe, bytes.Contains(maps, []byte("/ld-")); err != nil || dynamic && !bytes.Contains(maps, []byte("/libc")) {
					t.Errorf("%s has no library in memory: %v\n%s", linked, err, maps)
				}
				time.Sleep(20 * time.Millisecond) // in which it would be done
				if written, err := os.ReadFile(to); err != nil || len(written) > 0 {
					t.Errorf("it has written %q, %v", written, err)
				}
			})
			command.Wait()
			want := "text"
			if c.waits == "" {
				want = ""
			}
			if (program != "") != (c.waits != "") {
				t.Errorf("%q waited", program)
			}
			if written, err := os.ReadFile(to); err != nil || string(written) != want {
				t.Errorf("it has written %q, %v; want %q", written, err, want)
			}
		})
	}
}

// TestGoAfterKill: a program that waits, or has not got there, can be ended.
func TestGoAfterKill(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("sleep"))
	command, err := StartCommand("sleep 100", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	waits, goOn := make(chan struct{}), make(chan struct{})
	command.GoAfter(func() {
		close(waits)
		<-goOn
	})
	<-waits
	if err := command.Kill(); err != nil {
		t.Error(err)
	}
	close(goOn)
	command.Wait()
	if err := command.cmd.Process.Signal(os.Kill); err == nil {
		t.Error("it is still there")
	}
}
