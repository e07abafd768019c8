package probe

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/golden"
	"github.com/borescope/borescope/pmc"
)

// all is a machine that can do everything.
func all(except ...feature.Feature) feature.Set {
	s := feature.Set{}
	for _, f := range feature.All() {
		s[f.String()] = feature.Result{State: feature.Yes}
	}
	for _, f := range except {
		s[f.String()] = feature.Result{State: feature.No, Why: "CONFIG_EXAMPLE is not set"}
	}
	return s
}

// testBTF is a small kernel: what the recorded plans are typed by.
func testBTF(t testing.TB) *btf.Spec {
	t.Helper()
	u32 := &btf.Int{Name: "unsigned int", Size: 4}
	i32 := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	u64 := &btf.Int{Name: "unsigned long", Size: 8}
	u8 := &btf.Int{Name: "u8", Size: 1}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	sizeT := &btf.Typedef{Name: "size_t", Type: u64}
	ssizeT := &btf.Typedef{Name: "ssize_t", Type: &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}}
	file := &btf.Struct{Name: "file", Size: 8, Members: []btf.Member{{Name: "f_flags", Type: u32}}}
	task := &btf.Struct{Name: "task_struct", Size: 8, Members: []btf.Member{{Name: "pid", Type: i32}}}
	pair := &btf.Struct{Name: "pair", Size: 16, Members: []btf.Member{{Name: "a", Type: u64}, {Name: "b", Type: u64, Offset: 64}}}
	big := &btf.Struct{Name: "big", Size: 24, Members: []btf.Member{{Name: "a", Type: u64}, {Name: "b", Type: u64, Offset: 64}, {Name: "c", Type: u64, Offset: 128}}}
	void := &btf.Void{}
	ptr := func(x btf.Type) btf.Type { return &btf.Pointer{Target: x} }
	param := func(name string, x btf.Type) btf.FuncParam { return btf.FuncParam{Name: name, Type: x} }
	fn := func(name string, ret btf.Type, params ...btf.FuncParam) btf.Type {
		return &btf.Func{Name: name, Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: ret, Params: params}}
	}
	meta := ptr(&btf.Struct{Name: "bpf_iter_meta", Size: 8, Members: []btf.Member{{Name: "seq_num", Type: u64}}})
	inUnion := func(name string, x btf.Type) btf.Type {
		return &btf.Union{Size: 8, Members: []btf.Member{{Name: name, Type: x}}}
	}
	sw := []btf.FuncParam{
		param("", ptr(void)), param("", &btf.Int{Name: "bool", Size: 1, Encoding: btf.Bool}), param("", ptr(task)), param("", ptr(task)),
	}
	named := []btf.FuncParam{
		param("__data", ptr(void)), param("preempt", sw[1].Type), param("prev", ptr(task)), param("next", ptr(task)),
	}
	b, err := btf.NewBuilder([]btf.Type{
		fn("vfs_read", ssizeT, param("file", ptr(file)), param("buf", ptr(char)), param("count", sizeT), param("pos", ptr(ssizeT))),
		fn("vfs_write", ssizeT, param("file", ptr(file)), param("buf", ptr(&btf.Const{Type: char})), param("count", sizeT)),
		fn("do_exit", void, param("code", ssizeT)),
		fn("narrow", u8, param("a", u8), param("b", i32)),
		fn("by_value", pair, param("p", pair), param("q", u32), param("r", big), param("s", u32)),
		fn("nine", i32, param("a", u32), param("b", u32), param("c", u32), param("d", u32), param("e", u32),
			param("f", u32), param("g", u32), param("h", u32), param("i", u64)),
		fn("printk", i32, param("fmt", ptr(char)), param("", void)),
		fn("twin", i32, param("a", u32)),
		fn("twin", i32, param("a", ptr(file))),
		fn("__x64_sys_getppid", ssizeT, param("unused", ptr(void))),
		fn("bpf_lsm_file_open", i32, param("file", ptr(file))),
		&btf.Typedef{Name: "btf_trace_sched_switch", Type: ptr(&btf.FuncProto{Return: void, Params: sw})},
		fn("__traceiter_sched_switch", i32, named...),
		&btf.Struct{Name: "bpf_iter__task", Size: 16, Members: []btf.Member{
			{Type: inUnion("meta", meta)}, {Type: inUnion("task", ptr(task)), Offset: 64},
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

const testKallsyms = `ffffffff81000000 T _text
ffffffff81000100 T vfs_read
ffffffff81000200 T vfs_write
ffffffff81000300 T do_exit
ffffffff81000400 t twin
ffffffff81000500 t twin
ffffffff81000600 t lookup_fast.isra.0
ffffffff81000700 T __x64_sys_getppid
ffffffff81000800 T narrow
ffffffff81000900 T nine
ffffffff81000a00 T by_value
ffffffff81000b00 D jiffies
ffffffffc0000000 t ext4_sync_fs	[ext4]
ffffffffc0000100 t ext4_sync_file	[ext4]
`

const testFormat = `name: sched_switch
ID: 310
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t prev_pid;	offset:24;	size:4;	signed:1;
	field:__data_loc char[] cmd;	offset:28;	size:4;	signed:0;

print fmt: "prev_comm=%s", REC->prev_comm
`

const testSyscallFormat = `name: sys_enter_openat
ID: 782
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;

	field:int __syscall_nr;	offset:8;	size:4;	signed:1;
	field:int dfd;	offset:16;	size:8;	signed:0;
	field:const char * filename;	offset:24;	size:8;	signed:0;
	field:umode_t mode;	offset:40;	size:8;	signed:0;

print fmt: "dfd: 0x%08lx", ((unsigned long)(REC->dfd))
`

// testRoot is a machine's files.
func testRoot(t testing.TB) fstest.MapFS {
	t.Helper()
	target, err := os.ReadFile("testdata/target/target-amd64")
	if err != nil {
		t.Fatal(err)
	}
	arm, err := os.ReadFile("testdata/target/target-arm64")
	if err != nil {
		t.Fatal(err)
	}
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	return fstest.MapFS{
		"proc/kallsyms":                 file(testKallsyms),
		"proc/77/maps":                  file("00400000-00401000 r-xp 00000000 00:01 5 /bin/target\n"),
		"proc/77/exe":                   {Data: target},
		"proc/77/root/opt/app":          {Data: target},
		"sys/devices/system/cpu/online": file("0-1,3\n"),
		"sys/kernel/tracing/events/sched/sched_switch/format":        file(testFormat),
		"sys/kernel/tracing/events/syscalls/sys_enter_openat/format": file(testSyscallFormat),
		"sys/kernel/tracing/available_filter_functions":              file("vfs_read\nvfs_write\ndo_exit\nnine\next4_sync_fs [ext4]\next4_sync_file [ext4]\n"),
		"bin/target":                     {Data: target},
		"bin/arm":                        {Data: arm},
		"bin/script":                     file("#!/bin/sh\n"),
		"bin/empty":                      file(""),
		"lib/x86_64-linux-gnu/libt.so.6": {Data: target},
	}
}

// testEnv is a recorded amd64 machine with everything but the given features.
func testEnv(t testing.TB, except ...feature.Feature) *Env {
	return NewEnv(&EnvOptions{
		Root: testRoot(t), Arch: "amd64", Release: "6.12.0-test", Features: all(except...), BTF: testBTF(t),
	})
}

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
	env := testEnv(t)
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
		_, err := Resolve(testEnv(t, c.f...), []Target{mustParse(t, c.target)}, nil)
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
