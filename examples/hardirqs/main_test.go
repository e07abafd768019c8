package main

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"write": func() {
		for range 23 {
			// A disk says when it has written, a serial console when it has sent.
			f, err := os.CreateTemp("", "hardirqs")
			if err != nil {
				continue
			}
			f.Write([]byte("x"))
			f.Sync()
			f.Close()
			os.Remove(f.Name())
		}
		if f, err := os.OpenFile("/dev/console", os.O_WRONLY, 0); err == nil {
			f.WriteString(strings.Repeat(" ", 256) + "\n")
			f.Close()
		}
	}})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "hardirqs", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/counts", "-T") }

// interrupts is how many there have been by name of the only handler. Lines whose
// handlers are several, or have spaces in their names, are left out.
func interrupts(t *testing.T) map[string]int {
	b, err := os.ReadFile("/proc/interrupts")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	cpus := len(strings.Fields(lines[0]))
	out := map[string]int{}
	for _, line := range lines[1:] {
		fields := strings.Fields(line)
		if len(fields) < cpus+2 || strings.Contains(line, ",") {
			continue
		}
		if _, err := strconv.Atoi(strings.TrimSuffix(fields[0], ":")); err != nil {
			continue // not a device's
		}
		for _, field := range fields[1 : cpus+1] {
			n, _ := strconv.Atoi(field)
			out[fields[len(fields)-1]] += n
		}
	}
	return out
}

// While a child writes to disk and console, as many interrupts are counted for
// each device as the kernel counts: no fewer than during the work, no more than
// from before the probes to behind them.
func TestLive(t *testing.T) {
	child := tooltest.Start(t, "write")
	before := interrupts(t)
	least := map[string]int{}
	out := tooltest.Live(t, run, []string{"-json", "-C"}, func() {
		begin := interrupts(t)
		child.Work()
		for name, n := range interrupts(t) {
			least[name] = n - begin[name]
		}
	})
	after := interrupts(t)
	counted, lost := map[string]int{}, 0
	for _, r := range tooltest.Objects[struct {
		Hardirq string
		Total   int `json:"total_count"`
		Lost    struct{ Firings int }
	}](t, out) {
		counted[r.Hardirq] = r.Total
		lost += r.Lost.Firings
	}
	for name, n := range after {
		// An interrupt of which the work was done by the one before is not claimed by
		// the handler: the kernel counts it, and we don't. Disks have few of these;
		// the console often has written all itself when its interrupt comes.
		least[name] -= least[name] / 20
		if strings.HasPrefix(name, "ttyS") {
			least[name] = min(least[name], 1)
		}
		// Interrupts that have begun are counted by the kernel already, by us at
		// their end: one for each device may be under way.
		if c := counted[name]; c+lost+1 < least[name] || c > n-before[name] {
			t.Errorf("%s: %d interrupts (%d lost), the kernel says %d to %d:\n%s", name, c, lost, least[name], n-before[name], out)
		}
	}
}
