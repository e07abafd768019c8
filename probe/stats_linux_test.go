package probe

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

func TestLinkStats(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	stats, err := ebpf.EnableStats(0) // BPF_STATS_RUN_TIME
	if err != nil {
		testenv.Need(t, testenv.Got("run statistics", err))
	}
	defer stats.Close()
	w := probetest.Start(t)
	_, l := attachCounter(t, mustResolve(t, nil, "uprobe:"+probetest.TargetPath()+":add"), probetest.Counting{Value: -1})
	w.Run()
	s, err := l.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if s.Runs != probetest.Times || s.Runtime <= 0 || s.Missed != 0 || s.Recursion != 0 {
		t.Errorf("%+v, want %d runs and nothing missed", s, probetest.Times)
	}
	if m := l.Method(0); m != MethodPerfLink && m != MethodPerfIoctl {
		t.Errorf("attached by %s", m)
	}
	if m := l.Method(1); m != MethodNone {
		t.Errorf("site 1 of 1 attached by %s", m)
	}
	l.Close()
	if _, err := l.Stats(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestKprobeMissed: a kprobe whose program hits a kprobe misses that one.
func TestKprobeMissed(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes)
	w := probetest.Start(t)
	// bpf_get_current_pid_tgid is called by the first program and probed by
	// the second: hit while a kprobe is handled, it is missed.
	inner, err := Resolve(nil, []Target{mustParse(t, "kprobe:bpf_get_current_pid_tgid")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := loadCounter(t, inner, probetest.Counting{Value: -1})
	l, err := inner.Attach(n.progs, nil)
	if err != nil {
		testenv.Need(t, testenv.Got("kprobe:bpf_get_current_pid_tgid, blacklisted on some kernels", err))
	}
	defer l.Close()
	_, _ = attachCounter(t, mustResolve(t, nil, "kprobe:ksys_write"), probetest.Counting{PID: w.PID(), Value: -1})
	for range probetest.Times {
		w.Run()
	}
	s, err := l.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if s.MissedKnown && s.Missed+s.Recursion+n.read(t, 0).Count < probetest.Times {
		t.Errorf("%+v and %d counted, want at least %d", s, n.read(t, 0).Count, probetest.Times)
	}
	t.Logf("%+v, counted %d", s, n.read(t, 0).Count)
}

// TestKill: a process that is killed in mid-run leaves nothing behind.
func TestKill(t *testing.T) {
	if os.Getenv("PROBE_TEST_HOLD") != "" {
		hold(t)
		return
	}
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.Perf)
	cmd := testenv.Command(t, os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), "PROBE_TEST_HOLD=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var b [5]byte
	if _, err := out.Read(b[:]); err != nil || !strings.HasPrefix(string(b[:]), "held") {
		t.Fatalf("child: %q, %v", b, err)
	}
	objects := testenv.ObjectsOf(cmd.Process.Pid)
	cmd.Process.Kill()
	cmd.Wait()
	objects.WaitGone(t)
}

// hold attaches one of each kind that works here, says so, and waits to be killed.
func hold(t *testing.T) {
	for _, target := range []string{
		"uprobe:" + probetest.TargetPath() + ":helper_*", "uprobe:" + probetest.TargetPath() + ":add",
		"usdt:" + probetest.TargetPath() + ":twice", "profile:hz:99", "rawtracepoint:sys_enter", "kprobe:ksys_write",
	} {
		plan, err := Resolve(nil, []Target{mustParse(t, target)}, nil)
		if err != nil {
			continue
		}
		n := loadCounter(t, plan, probetest.Counting{Value: -1})
		l, err := plan.Attach(n.progs, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	os.Stdout.WriteString("held\n")
	time.Sleep(time.Hour)
}
