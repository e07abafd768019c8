package probe

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestDaemonSet: the manifest grants what Requires names, and no more.
func TestDaemonSet(t *testing.T) {
	b, err := os.ReadFile("testdata/daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "\t") {
		t.Error("YAML takes no tabs")
	}
	m := regexp.MustCompile(`(?m)^ +add: \[(.*)\]$`).FindSubmatch(b)
	if m == nil {
		t.Fatal("no capabilities")
	}
	granted := strings.Split(string(m[1]), ", ")
	slices.Sort(granted)
	targets := []Target{
		Kprobe{Symbol: "*"},
		Fentry{Symbol: "f"},
		Tracepoint{Group: "a", Name: "b"},
		RawTracepoint{Name: "a"},
		Uprobe{Path: "/a", Symbol: "f", PID: 1},
		USDT{Path: "/a", Name: "n"},
		Perf{Freq: 99},
		Iter{Name: "task"},
		SocketFilter{Interface: "lo"},
		Begin{},
		Watchpoint{Symbol: "x", Length: 8, Mode: "w"},
	}
	var needed []string
	for _, r := range Requires(probetest.Env(t), targets) {
		if r.Kind == "capability" {
			needed = append(needed, strings.TrimPrefix(r.Name, "CAP_"))
		}
		if r.Kind == "mount" && !strings.Contains(string(b), "mountPath: "+r.Name) {
			t.Errorf("%s is not mounted", r.Name)
		}
	}
	slices.Sort(needed)
	if !slices.Equal(granted, needed) {
		t.Errorf("granted %q, needed %q", granted, needed)
	}
}
