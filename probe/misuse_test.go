package probe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/golden"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// misuse is what people get wrong: a text, or a target that no text makes.
var misuse = []any{
	// spelling
	"", "vfs_read", "kprbe:vfs_read", "kprobe:", "kprobe:a:b:c", "kprobe:vfs_read+", "kprobe:vfs_read+x",
	"kprobe:0x", "kprobe:0x0", "kprobe:99999999999999999999", "kretprobe:vfs_read+4", "fentry:vfs_read+4", "tracepoint:sched_switch",
	"tracepoint:a:b:c", "usdt:/bin/target", "uprobe:/bin/target", "uprobe:/bin/target:", "uprobe:/bin/target:a:b",
	`uprobe:"/bin/target:main`, "uretprobe:/bin/target:0x10", "profile:hz:0", "profile:fortnight:2",
	"interval:s:99999999999999", "software:cycles:1", "hardware:page-faults:1", "perf:cycles",
	"watchpoint:0x1000:3:w", "watchpoint:0x1000:8:", "watchpoint:0x1000:8:wz", "begin:now", "kprobe:vfs_read pid=1",
	"uprobe:/bin/target:add pid=none", "profile:hz:99 cpus=", "kprobe:vfs_read sleepable",
	// kernel functions
	"kprobe:vfs_raed", "kprobe:lookup_fast", "kprobe:twin", "kprobe:nosuch_*", "kprobe:ext4:vfs_read", "kprobe:ext4:ext4_sync_fss",
	"kprobe:vfs_read+4096", "kprobe:0x1000", "fentry:vfs_raed", "fentry:lookup_fast.isra.0", "fentry:ext4_sync_fs",
	"fmod_ret:nosuch", "lsm:file_opn",
	// tracepoints
	"tracepoint:sched:sched_swich", "tracepoint:shed:sched_switch", "tracepoint:syscalls:sched_switch", "tracepoint:vfs:sched_switch",
	"tracepoint:sched:nosuch_*", "tracepoint:..:sched", "rawtracepoint:sched_swich", "rawtracepoint:sys_enter_openat", "rawtracepoint:nosuch_*",
	// user programs
	"uprobe:/bin/trget:add", "uprobe:/opt/app:add", "uprobe:/bin/script:main", "uprobe:/bin/empty:main", "uprobe:/bin:main", "uprobe:/bin/arm:add",
	"uprobe:/bin/target:ad", "uprobe:/bin/target:add+1", "uprobe:/bin/target:add+4096", "uprobe:/bin/target:0x99999999",
	"uprobe:/bin/target:target.c:1", "uprobe:/bin/target:target.c:99999", "uprobe:/bin/target:targe.c:10", "uprobe:nosuchlib:f",
	"uprobe::add pid=4", "uprobe:bin/../target:add pid=77", "uprobe:/nosuch/*:add", "uretprobe:/bin/target:nosuch",
	"usdt:/bin/target:target:twic", "usdt:/bin/target:other:twice", "usdt:/bin/script:a:b", "usdt:/nosuch:a:b",
	// performance events and others
	"profile:hz:99 cpus=2", "profile:hz:99 cpus=0 pid=77", "profile:hz:99 cgroup=/a pid=77", "watchpoint:0x1001:8:w pid=77",
	"watchpoint:0x1000:8:w", "watchpoint:0x1000:8:wx pid=77", "watchpoint:jifies:8:w", "iter:tsk", "iter:bpf_map pid=77",
	// targets that no text makes
	Kprobe{},
	RawTracepoint{},
	Kretprobe{},
	Fentry{},
	Uprobe{},
	Uretprobe{Path: "/bin/target"},
	USDT{Path: "/bin/target"},
	Perf{},
	Perf{Freq: 1, Period: 1},
	Perf{Period: 1},
	Perf{Every: -time.Second},
	Perf{Every: time.Second, Event: pmc.PageFaults()},
	Perf{Freq: 9, CPUs: []int{}},
	Perf{Freq: 9, PID: -1},
	Watchpoint{Address: 8, Length: 5, Mode: "w"},
	Watchpoint{Address: 8, Length: 8},
	Watchpoint{Address: 8, Length: 8, Mode: "q"},
	SocketFilter{},
	Set{},
	Uprobe{Path: "/bin/target", Symbol: "add", PID: -4},
	nil,
}

// lacking are targets on a machine without what they need.
var lacking = []struct {
	target string
	f      []feature.Feature
}{
	{"kprobe:vfs_read", []feature.Feature{feature.Kprobe, feature.KprobeMulti}},
	{"fentry:vfs_read", []feature.Feature{feature.Fentry}},
	{"fexit:vfs_read", []feature.Feature{feature.Fexit}},
	{"uprobe:/bin/target:add", []feature.Feature{feature.Uprobe}},
	{"usdt:/bin/target:twice", []feature.Feature{feature.Uprobe}},
	{"iter:task", []feature.Feature{feature.Iter}},
	{"lsm:file_open", []feature.Feature{feature.LSM}},
	{"watchpoint:0x1000:8:w pid=77", []feature.Feature{feature.Watchpoint}},
	{"begin", []feature.Feature{feature.SyscallProg, feature.TestRunRawTP}},
}

// TestMisuse: every error is one line that names the cause and what to do.
func TestMisuse(t *testing.T) {
	env := probetest.Env(t)
	var b strings.Builder
	n := 0
	say := func(what any, err error) {
		n++
		if err == nil {
			t.Errorf("%v: no error", what)
			return
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: several lines: %v", what, err)
		}
		fmt.Fprintf(&b, "%v\n\t%v\n", what, err)
	}
	for i, m := range misuse {
		if s, ok := m.(string); ok {
			target, err := ParseTarget(s)
			if err == nil {
				_, err = Resolve(env, []Target{target}, nil)
			}
			say(fmt.Sprintf("%q", s), err)
			continue
		}
		target, _ := m.(Target)
		_, err := Resolve(env, []Target{target}, nil)
		say(fmt.Sprintf("%T, request %d", m, i), err)
	}
	for _, c := range lacking {
		_, err := Resolve(probetest.Env(t, c.f...), []Target{mustParse(t, c.target)}, nil)
		if !isUnsupportedErr(err) {
			t.Errorf("%s: %v does not match errors.ErrUnsupported", c.target, err)
		}
		say(c.target+" without "+c.f[0].String(), err)
	}
	if n < 60 {
		t.Errorf("only %d bad requests", n)
	}
	golden.Compare(t, "testdata/misuse.txt", b.String())
}
