package probe

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestFUSE: a program for whose file a process answers is probed by Unsafe alone.
func TestFUSE(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Guest, testenv.Mounts, testenv.Uprobes)
	if !testenv.OwnMounts(t) {
		return
	}
	program, err := os.ReadFile(probetest.TargetPath())
	if err != nil {
		t.Fatal(err)
	}
	served := testenv.MountFUSE(t, 0, func(dev int) { testenv.ServeFUSE(dev, program) })
	if served == nil {
		return
	}
	path := served.Program
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
