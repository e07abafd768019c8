package collecthttp_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
)

// buildService builds the service of testdata, which is a module outside of this one.
func buildService(t *testing.T) string {
	t.Helper()
	testenv.Need(t, testenv.Go, testenv.Long)
	source, err := os.ReadFile("testdata/service/main.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(source)) {
		if s := strings.TrimSpace(line); s != "" && !strings.HasPrefix(s, "//") {
			lines++
		}
	}
	if lines > 80 {
		t.Errorf("the service takes %d lines, want at most 80", lines)
	}
	dir := t.TempDir()
	exe := filepath.Join(dir, "service")
	build := testenv.Command(t, "go", "build", "-C", "testdata/service", "-o", exe, ".")
	build.Env = append(os.Environ(), "GOFLAGS=-mod=readonly "+os.Getenv("GOFLAGS"), "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// freePort is a port of the loopback interface that nobody has.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A service shows its own system calls by name, exactly, and its stacks, and ends when it is
// asked to; without privileges it says which ones it lacks.
func TestService(t *testing.T) {
	exe := buildService(t)
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Tracefs)
	at := freePort(t)
	cmd := testenv.Command(t, exe, at)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	page := func(path string) string {
		r, err := client.Get("http://" + at + path)
		if err != nil {
			return err.Error()
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		return string(b)
	}
	for begin := time.Now(); strings.Contains(page("/work"), "refused"); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("it doesn't answer: %s", said.String())
		}
	}
	for range 100 {
		page("/work?n=23")
	}
	metrics := page("/metrics")
	value := func(series string) (v float64) {
		if _, rest, ok := strings.Cut(metrics, "\n"+series+" "); ok {
			fmt.Sscan(rest, &v)
		}
		return v
	}
	got, missed := value(`own_syscall_seconds_count{call="getpgid"}`), value("own_syscalls_missed")
	if got > 2300 || got+missed < 2300 || got == 0 {
		t.Errorf("%v calls of getpgid and %v that were not seen, want 2300:\n%.3000s", got, missed, metrics)
	}
	found := false
	for begin := time.Now(); !found && time.Since(begin) < 30*time.Second; time.Sleep(100 * time.Millisecond) {
		page("/work?n=200000")
		found = strings.Contains(page("/debug/stacks/folded"), "main.run.func")
	}
	if !found {
		t.Errorf("the stacks do not show what it does:\n%.2000s", page("/debug/stacks/folded"))
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
}

// Without privileges the service says which ones it lacks.
func TestServiceUnprivileged(t *testing.T) {
	exe := buildService(t)
	cmd := testenv.Command(t, exe, freePort(t))
	cmd.Dir = "/"
	if os.Geteuid() == 0 {
		for dir := filepath.Dir(exe); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "CAP_BPF") || strings.Count(string(out), "\n") != 1 {
		t.Errorf("%v: %s", err, out)
	}
}
