package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/tracefs"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestAttachErrors: what the kernel refuses, in one line that says why, with
// nothing left attached.
func TestAttachErrors(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.Perf, testenv.Tracefs)
	files := probetest.OpenFiles(t)
	change := func(text string, f func(p *Plan)) *Plan {
		plan := mustResolve(t, &Options{NoTypes: true}, text)
		f(plan)
		return plan
	}
	site := func(p *Plan) *Site { return &p.Programs[0].Sites[len(p.Programs[0].Sites)-1] }
	for _, c := range []struct {
		name string
		plan *Plan
		want string
		is   error
	}{
		{"raw tracepoint", change("rawtracepoint:nosuch", func(*Plan) {}), "no raw tracepoint nosuch", fs.ErrNotExist},
		{"file", change("uprobe:"+probetest.TargetPath()+":add", func(p *Plan) { site(p).Path = "/nosuch" }), "no file /nosuch", fs.ErrNotExist},
		{"directory", change("uprobe:"+probetest.TargetPath()+":add", func(p *Plan) { site(p).Path = os.TempDir() }), "cannot be probed", nil},
		{"offset", change("uprobe:"+probetest.TargetPath()+":add", func(p *Plan) { site(p).Offset = 1 << 40 }), "file offset 0x10000000000", nil},
		{"process", change("uprobe:"+probetest.TargetPath()+":add", func(p *Plan) { site(p).PID = 1<<22 - 1 }), "no process 4194303", nil},
		{"tracepoint", change("tracepoint:sched:sched_switch", func(p *Plan) {
			site(p).Target = Tracepoint{Group: "sched", Name: "sched_swich"}
		}), `did you mean "sched_switch"`, fs.ErrNotExist},
		{"sample rate", change("perf:cpu-clock:hz:99", func(p *Plan) {
			x := site(p).Target.(Perf)
			x.Freq = 1 << 40
			site(p).Target = x
		}), "the limit is kernel.perf_event_max_sample_rate", nil},
		{"sampled process", change("software:page-faults:1 pid=1", func(p *Plan) { site(p).PID = 1<<22 - 1 }), "no process", fs.ErrNotExist},
		{"iterated process", change("iter:task pid=1", func(p *Plan) { site(p).PID = 1<<22 - 1 }), "no process 4194303", fs.ErrNotExist},
		{"interface", change("socket:nosuch0", func(*Plan) {}), "no interface nosuch0", fs.ErrNotExist},
		{"method", change("profile:hz:9", func(p *Plan) { p.Programs[0].Method = MethodNone }), "the plan has no method", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := loadCounter(t, c.plan, probetest.Counting{Value: -1})
			l, err := c.plan.Attach(n.progs, nil)
			if err == nil {
				l.Close()
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v, want %q, %v", err, c.want, c.is)
			}
		})
	}
	if after := probetest.OpenFiles(t); after != files {
		t.Errorf("%d descriptors before, %d after", files, after)
	}
}

// TestAttachOffline: a CPU that went away since the plan was made is passed over.
func TestAttachOffline(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	plan := mustResolve(t, nil, "perf:cpu-clock:hz:99")
	n := len(plan.Programs[0].Sites)
	gone := plan.Programs[0].Sites[0]
	gone.CPU = 1000
	plan.Programs[0].Sites = append(plan.Programs[0].Sites, gone)
	_, l := attachCounter(t, plan, probetest.Counting{Value: -1})
	if got := len(l.Sites()); got != n {
		t.Errorf("%d sites, want %d", got, n)
	}
}

// TestAttachMissing: what the kernel refuses may be left out.
func TestAttachMissing(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := probetest.Start(t)
	for _, o := range []*Options{{}, {NoMulti: true}} {
		plan := mustResolve(t, o, "uprobe:"+probetest.TargetPath()+":helper_*")
		plan.Programs[0].Sites[0].Offset = 1 << 40
		n := loadCounter(t, plan, probetest.Counting{Value: -1})
		l, err := plan.Attach(n.progs, &AttachOptions{Missing: MissingWarn})
		if err != nil {
			t.Fatal(err)
		}
		if m := l.Missing(); len(m) != 1 || len(l.Sites()) != 1 || m[0].Err == nil {
			t.Errorf("missing %v, attached %v", m, l.Sites())
		}
		w.Run()
		probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times})
		l.Close()
	}
	var missing *Link
	if missing.Close() != nil {
		t.Error("closing no link fails")
	}
}

func TestAttachWrongPrograms(t *testing.T) {
	testenv.Need(t, testenv.Root)
	plan := mustResolve(t, &Options{NoTypes: true}, "rawtracepoint:sys_enter")
	if _, err := plan.Attach(map[string]*ebpf.Program{"other": nil}, nil); err == nil || !strings.Contains(err.Error(), plan.Programs[0].Name) {
		t.Errorf("a program too few: %v", err)
	}
	if _, err := Attach(nil, nil, nil); err == nil {
		t.Error("no program and no target")
	}
	n := loadCounter(t, plan, probetest.Counting{Value: 11 * 8}) // more arguments than it has
	if l, err := plan.Attach(n.progs, nil); err == nil {
		l.Close()
		t.Error("a program that reads 12 arguments was attached to sys_enter")
	} else if !strings.Contains(err.Error(), "reads more arguments") {
		t.Error(err)
	}
}

// TestSweep: tracefs events of dead processes are removed, others stay.
func TestSweep(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes, testenv.Tracefs)
	events := testenv.TracefsDir(t) + "/kprobe_events"
	dead, alive := "p4194302_0_1", fmt.Sprintf("p%d_99_1", os.Getpid())
	for _, name := range []string{dead, alive} {
		if err := tracefs.AppendLine(events, "r4:"+tracefs.Group+"/"+name+" ksys_read"); err != nil {
			t.Fatal(err)
		}
	}
	defer tracefs.AppendLine(events, "-:"+tracefs.Group+"/"+alive)
	tracefs.Sweep(events)
	b, err := os.ReadFile(events)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), dead) || !strings.Contains(string(b), alive) {
		t.Errorf("after sweeping:\n%s", b)
	}
}

// TestAttachTwice: a program is taken once for a tracepoint, and again after
// it was detached.
func TestAttachTwice(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	plan := mustResolve(t, nil, "tracepoint:syscalls:sys_enter_getppid")
	n, l := attachCounter(t, plan, probetest.Counting{Value: -1})
	if _, err := plan.Attach(n.progs, nil); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "load it a second time") {
		t.Errorf("attached twice: %v", err)
	}
	l.Close()
	again, err := plan.Attach(n.progs, nil)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}
