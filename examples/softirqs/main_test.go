package main

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"send": func() {
		c, err := net.Dial("udp", "127.0.0.1:9")
		if err != nil {
			return
		}
		defer c.Close()
		for range 23 {
			c.Write([]byte("x"))
		}
	}})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "softirqs", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/counts", "-T") }

// netRX is how many soft interrupts there have been for received packets.
func netRX(t *testing.T) (n int) {
	b, err := os.ReadFile("/proc/softirqs")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(b), "NET_RX:")
	line, _, _ = strings.Cut(line, "\n")
	for _, field := range strings.Fields(line) {
		v, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		n += v
	}
	return n
}

// While a child sends 23 packets to itself, as many are counted as the kernel
// counts: no fewer than during the work, no more than from before the probes to
// behind them.
func TestLive(t *testing.T) {
	child := tooltest.Start(t, "send")
	least := 0
	before := netRX(t)
	out := tooltest.Live(t, run, []string{"-json", "-C"}, func() {
		begin := netRX(t)
		child.Work()
		least = netRX(t) - begin
	})
	most := netRX(t) - before
	n, lost := 0, 0
	for _, r := range tooltest.Objects[struct {
		Softirq string
		Total   int `json:"total_count"`
		Lost    struct{ Firings int }
	}](t, out) {
		lost += r.Lost.Firings
		if r.Softirq == "net_rx" {
			n = r.Total
		}
	}
	if n+lost < least || n > most || n == 0 {
		t.Errorf("%d soft interrupts for received packets (%d lost), the kernel says %d to %d:\n%s", n, lost, least, most, out)
	}
}

// Times are measured: nothing else is certain of them.
func TestTimes(t *testing.T) {
	child := tooltest.Start(t, "send")
	out := tooltest.Live(t, run, []string{"-json", "-d"}, child.Work)
	if !strings.Contains(out, `"softirq":"net_rx","unit":"usecs"`) {
		t.Errorf("no histogram of net_rx:\n%s", out)
	}
}
