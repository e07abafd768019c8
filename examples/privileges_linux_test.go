package examples_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
)

// buildTools builds the programs of packages as they are released, without cgo, into
// a directory.
func buildTools(t *testing.T, dir string, packages ...string) {
	t.Helper()
	build := testenv.Command(t, "go", append([]string{"build", "-ldflags=-w", "-o", dir + "/"}, packages...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
}

// TestToolsGiveUpCapabilities: once a tool traces, no thread of it has more than
// reading, naming and detaching need, and it works to its end.
func TestToolsGiveUpCapabilities(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs, testenv.Go, testenv.Long)
	dir := t.TempDir()
	buildTools(t, dir, "./funccount", "./tcplife", "./trace", "./profile", "./perfstat")
	var most uint64
	for _, c := range []feature.Cap{feature.CapBPF, feature.CapPerfmon, feature.CapSysPtrace, feature.CapDACReadSearch, feature.CapSyslog, feature.CapCheckpointRestore} {
		most |= 1 << c
	}
	const begun = "Hit Ctrl-C to end."
	for name, more := range map[string]struct {
		args  []string
		begun string
		caps  uint64
	}{
		"funccount": {[]string{"t:sched:sched_switch"}, begun, 0},
		"tcplife":   {[]string{"-record", dir + "/recording"}, begun, 1 << feature.CapDACOverride},
		"trace":     {[]string{"t:sched:sched_process_exec"}, begun, 0},
		"profile":   {[]string{"-d", "1m"}, begun, 0},
		"perfstat":  {[]string{"-a", "-I", "100"}, "task-clock", 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := testenv.CommandContext(ctx, t, filepath.Join(dir, name), more.args...)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stderr = cmd.Stdout
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for lines.Scan() && !strings.Contains(lines.Text(), more.begun) {
			}
			for what, has := range capabilities(t, cmd.Process.Pid) {
				if extra := has &^ (most | more.caps); extra != 0 {
					t.Errorf("%s: %#x too much", what, extra)
				}
			}
			cmd.Process.Signal(os.Interrupt)
			last := ""
			for lines.Scan() {
				last = lines.Text()
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, last)
			}
		})
	}
}

// TestNamesWithoutCapabilities: with what a tool keeps once it traces, it names
// functions of programs that have no path any more: deleted, replaced by another, or
// of memory.
func TestNamesWithoutCapabilities(t *testing.T) {
	const role = "EXAMPLES_WAIT"
	if os.Getenv(role) != "" {
		for {
			time.Sleep(20 * time.Millisecond)
		}
	}
	testenv.Need(t, testenv.Long, testenv.Root, testenv.Tracefs, testenv.Go, testenv.Long)
	dir := t.TempDir()
	buildTools(t, dir, "./offcputime")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	start := func(path string) int {
		cmd := testenv.Command(t, path, "-test.run=^TestNamesWithoutCapabilities$")
		cmd.Env = append(os.Environ(), role+"=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd.Process.Pid
	}
	for name, launch := range map[string]func(path string) int{
		"there": start,
		"deleted": func(path string) int {
			defer os.Remove(path)
			return start(path)
		},
		"replaced": func(path string) int {
			defer os.Rename(path+".new", path)
			if err := os.WriteFile(path+".new", self, 0o755); err != nil {
				t.Fatal(err)
			}
			return start(path)
		},
		"memory": func(path string) int {
			fd, err := unix.MemfdCreate("waits", unix.MFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			f := os.NewFile(uintptr(fd), "waits")
			defer f.Close()
			if _, err := f.Write(self); err != nil {
				t.Fatal(err)
			}
			return start(fmt.Sprintf("/proc/self/fd/%d", fd))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "waits-"+name)
			if err := os.WriteFile(path, self, 0o755); err != nil {
				t.Fatal(err)
			}
			pid := launch(path)
			out, err := testenv.Command(t, filepath.Join(dir, "offcputime"), "-f", "-U", "-p", strconv.Itoa(pid), "1").CombinedOutput()
			if err != nil || !strings.Contains(string(out), ";runtime.futex ") {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}

// capabilities reads the effective and permitted sets of each thread.
func capabilities(t *testing.T, pid int) map[string]uint64 {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		t.Fatal("no threads", err)
	}
	sets := map[string]uint64{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that ended
		}
		for line := range strings.Lines(string(b)) {
			var set uint64
			for _, kind := range []string{"CapEff", "CapPrm"} {
				if n, _ := fmt.Sscanf(line, kind+":\t%x", &set); n == 1 {
					sets[file+" "+kind] = set
				}
			}
		}
	}
	if len(sets) == 0 {
		t.Fatal("no sets of capabilities in", files)
	}
	return sets
}
