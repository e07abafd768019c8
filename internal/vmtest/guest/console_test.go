package guest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/vmtest/wire"
)

// transcript is what a guest prints, with the firmware's greeting, the carriage
// returns of a terminal, and trouble of every kind.
const transcript = "\x1b[2JSeaBIOS\r\n\n@vmtest-ready 6.12.1-cloud\r\n" +
	"@vmtest-begin 0 probe\r\n" +
	"=== RUN   TestA\r\n--- PASS: TestA (0.01s)\r\nPASS\r\n" +
	"@vmtest-warn 0 WARNING: CPU: 0 PID: 9\r\n" +
	"@vmtest-left 0 BPF map 17\r\n" +
	"@vmtest-end 0 0 1.500\r\n" +
	"@vmtest-begin 1 mapx\r\n" +
	"=== RUN   TestB\r\n    b_test.go:1: Oops, said the test\r\n--- FAIL: TestB (0.01s)\r\n" +
	"@vmtest-end 1 exit:1 0.250\r\n" +
	"@vmtest-begin 2 pmc\r\n" +
	"=== RUN   TestC\r\n[   12.5] Kernel panic - not syncing: test\r\n"

func TestConsole(t *testing.T) {
	jobs := []wire.Job{{Name: "probe"}, {Name: "mapx"}, {Name: "pmc"}}
	for _, size := range []int{1, 13, len(transcript)} {
		var log strings.Builder
		c := newConsole(jobs, &log)
		for piece := range slices.Chunk([]byte(transcript), size) {
			c.Write(piece)
		}
		r := c.report()
		if r.Release != "6.12.1-cloud" || !strings.Contains(r.Trouble, "Kernel panic") {
			t.Errorf("release %q, trouble %q", r.Release, r.Trouble)
		}
		if strings.Contains(log.String(), "SeaBIOS") || strings.Contains(log.String(), "@vmtest") ||
			!strings.Contains(log.String(), "--- PASS: TestA") {
			t.Errorf("streamed %q", log.String())
		}
		probe, mapx, pmc := &r.Jobs[0], &r.Jobs[1], &r.Jobs[2]
		if probe.OK() || probe.Status != "0" || probe.Took != 1500*time.Millisecond ||
			!slices.Equal(probe.Left, []string{"BPF map 17"}) || len(probe.Warnings) != 1 {
			t.Errorf("%+v", probe)
		}
		if mapx.OK() || mapx.Status != "exit:1" || len(mapx.Tests) != 1 {
			t.Errorf("%+v", mapx)
		}
		if pmc.OK() || pmc.Status != "unfinished" {
			t.Errorf("%+v", pmc)
		}
	}
}

// TestConsoleTrusts checks that what a test prints is not taken for the
// kernel's word, nor bad control lines for good ones.
func TestConsoleDistrusts(t *testing.T) {
	c := newConsole([]wire.Job{{Name: "x"}}, nil)
	c.Write([]byte("@vmtest-ready 6\n@vmtest-begin 0 x\nBUG: not the kernel\n" +
		"@vmtest-end 7 0 1\n@vmtest-end -1 0 1\n@vmtest-end\n@vmtest-left 9 x\n@vmtest-end 0 0 0.1\n"))
	if r := c.report(); !r.OK() {
		t.Errorf("%+v", r)
	}
}

// TestConsoleStands: what the kernel says of a CPU without its timer, and only
// the kernel; other stalls are the guest's own.
func TestConsoleStands(t *testing.T) {
	const line = "[   23.9] rcu: \tPossible timer handling issue on cpu=1 timer-softirq=1"
	var got []string
	c := newConsole(nil, nil)
	c.stands = func() { got = append(got, c.r.Trouble) }
	c.Write([]byte("@vmtest-ready 6\n" + line[len("[   23.9] "):] + "\n" +
		"[   23.8] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:\n" +
		"[   23.8] rcu: \t1-...!: (0 ticks this GP) idle=7b30/0/0x0 softirq=16/16 fqs=0 (false positive?)\n" +
		line + "\r\n[   23.9] rcu: rcu_preempt kthread starved for 5258 jiffies!\n"))
	if !slices.Equal(got, []string{"a CPU's timer never fires: " + line}) {
		t.Errorf("%q", got)
	}
}
