package examples_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
)

// TestToolsGiveUpCapabilities: once a tool traces, no thread of it has more than
// reading, naming and detaching need, and it works to its end.
func TestToolsGiveUpCapabilities(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs, testenv.Go, testenv.Long)
	dir := t.TempDir()
	build := testenv.Command(t, "go", "build", "-ldflags=-w", "-o", dir+"/", "./funccount", "./tcplife", "./trace")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var most uint64
	for _, c := range []feature.Cap{feature.CapBPF, feature.CapPerfmon, feature.CapSysPtrace, feature.CapDACReadSearch, feature.CapSyslog} {
		most |= 1 << c
	}
	for name, more := range map[string]struct {
		args []string
		caps uint64
	}{
		"funccount": {[]string{"t:sched:sched_switch"}, 0},
		"tcplife":   {[]string{"-record", dir + "/recording"}, 1 << feature.CapDACOverride},
		"trace":     {[]string{"t:sched:sched_process_exec"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := testenv.CommandContext(ctx, t, filepath.Join(dir, name), more.args...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			for lines.Scan() && !strings.Contains(lines.Text(), "Hit Ctrl-C to end.") {
			}
			for what, has := range capabilities(t, cmd.Process.Pid) {
				if extra := has &^ (most | more.caps); extra != 0 {
					t.Errorf("%s: %#x too much", what, extra)
				}
			}
			cmd.Process.Signal(os.Interrupt)
			for lines.Scan() {
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, stderr.String())
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
