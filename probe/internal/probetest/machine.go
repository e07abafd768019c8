package probetest

import (
	"bytes"
	"os"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe/env"
)

// Features returns the features of a machine that has all, except the given ones.
func Features(except ...feature.Feature) feature.Set {
	s := feature.Set{}
	for _, f := range feature.All() {
		s[f.String()] = feature.Result{State: feature.Yes}
	}
	for _, f := range except {
		s[f.String()] = feature.Result{State: feature.No, Reason: "CONFIG_EXAMPLE is not set"}
	}
	return s
}

// BTF returns the types of a small kernel, which the recorded plans use.
func BTF(t testing.TB) *btf.Spec {
	t.Helper()
	u32 := &btf.Int{Name: "unsigned int", Size: 4}
	i32 := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	u64 := &btf.Int{Name: "unsigned long", Size: 8}
	u8 := &btf.Int{Name: "u8", Size: 1}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	sizeT := &btf.Typedef{Name: "size_t", Type: u64}
	ssizeT := &btf.Typedef{
		Name: "ssize_t",
		Type: &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed},
	}
	file := &btf.Struct{Name: "file", Size: 8, Members: []btf.Member{{Name: "f_flags", Type: u32}}}
	task := &btf.Struct{Name: "task_struct", Size: 8, Members: []btf.Member{{Name: "pid", Type: i32}}}
	pair := &btf.Struct{
		Name: "pair", Size: 16,
		Members: []btf.Member{{Name: "a", Type: u64}, {Name: "b", Type: u64, Offset: 64}},
	}
	big := &btf.Struct{Name: "big", Size: 24, Members: []btf.Member{
		{Name: "a", Type: u64},
		{Name: "b", Type: u64, Offset: 64},
		{Name: "c", Type: u64, Offset: 128},
	}}
	void := &btf.Void{}
	ptr := func(x btf.Type) btf.Type { return &btf.Pointer{Target: x} }
	param := func(name string, x btf.Type) btf.FuncParam { return btf.FuncParam{Name: name, Type: x} }
	fn := func(name string, ret btf.Type, params ...btf.FuncParam) btf.Type {
		return &btf.Func{
			Name: name, Linkage: btf.StaticFunc,
			Type: &btf.FuncProto{Return: ret, Params: params},
		}
	}
	meta := ptr(&btf.Struct{
		Name: "bpf_iter_meta", Size: 8,
		Members: []btf.Member{{Name: "seq_num", Type: u64}},
	})
	inUnion := func(name string, x btf.Type) btf.Type {
		return &btf.Union{Size: 8, Members: []btf.Member{{Name: name, Type: x}}}
	}
	sw := []btf.FuncParam{
		param("", ptr(void)), param("", &btf.Int{Name: "bool", Size: 1, Encoding: btf.Bool}),
		param("", ptr(task)), param("", ptr(task)),
	}
	named := []btf.FuncParam{
		param("__data", ptr(void)), param("preempt", sw[1].Type), param("prev", ptr(task)),
		param("next", ptr(task)),
	}
	return Spec(t, []btf.Type{
		fn("vfs_read", ssizeT, param("file", ptr(file)), param("buf", ptr(char)), param("count", sizeT),
			param("pos", ptr(ssizeT))),
		fn("vfs_write", ssizeT, param("file", ptr(file)), param("buf", ptr(&btf.Const{Type: char})),
			param("count", sizeT)),
		fn("do_exit", void, param("code", ssizeT)),
		fn("narrow", u8, param("a", u8), param("b", i32)),
		fn("by_value", pair, param("p", pair), param("q", u32), param("r", big), param("s", u32)),
		fn("nine", i32, param("a", u32), param("b", u32), param("c", u32), param("d", u32),
			param("e", u32),
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
	})
}

// Spec returns a kernel's BTF with these types.
func Spec(t testing.TB, types []btf.Type) *btf.Spec {
	t.Helper()
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(RawBTF(t, types)))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// RawBTF is Spec, encoded as in /sys/kernel/btf/vmlinux.
func RawBTF(t testing.TB, types []btf.Type) []byte {
	t.Helper()
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Kallsyms is the recorded machine's /proc/kallsyms.
const Kallsyms = `ffffffff81000000 T _text
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
ffffffff81000a80 T printk
ffffffff81000b00 D jiffies
ffffffffc0000000 t ext4_sync_fs	[ext4]
ffffffffc0000100 t ext4_sync_file	[ext4]
`

// Format is a tracepoint's format file.
const Format = `name: sched_switch
ID: 310
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t prev_pid;	offset:24;	size:4;	signed:1;
	field:__data_loc char[] cmd;	offset:28;	size:4;	signed:0;

print fmt: "prev_comm=%s", REC->prev_comm
`

// SyscallFormat is a system call's format file.
const SyscallFormat = `name: sys_enter_openat
ID: 782
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;

	field:int __syscall_nr;	offset:8;	size:4;	signed:1;
	field:int dfd;	offset:16;	size:8;	signed:0;
	field:const char * filename;	offset:24;	size:8;	signed:0;
	field:umode_t mode;	offset:40;	size:8;	signed:0;

print fmt: "dfd: 0x%08lx", ((unsigned long)(REC->dfd))
`

// Root returns the recorded machine's files.
func Root(t testing.TB) fstest.MapFS {
	t.Helper()
	target, err := os.ReadFile(TargetFor("amd64"))
	if err != nil {
		t.Fatal(err)
	}
	arm, err := os.ReadFile(TargetFor("arm64"))
	if err != nil {
		t.Fatal(err)
	}
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	return fstest.MapFS{
		"proc/kallsyms":                 file(Kallsyms),
		"proc/77/maps":                  file("00400000-00401000 r-xp 00000000 00:01 5 /bin/target\n"),
		"proc/77/exe":                   {Data: target},
		"proc/77/root/opt/app":          {Data: target},
		"sys/devices/system/cpu/online": file("0-1,3\n"),
		"sys/kernel/tracing/events/sched/sched_switch/format":        file(Format),
		"sys/kernel/tracing/events/syscalls/sys_enter_openat/format": file(SyscallFormat),
		"sys/kernel/tracing/available_filter_functions": file(
			"vfs_read\nvfs_write\ndo_exit\nnine\next4_sync_fs [ext4]\next4_sync_file [ext4]\n"),
		"bin/target":                     {Data: target},
		"bin/arm":                        {Data: arm},
		"bin/script":                     file("#!/bin/sh\n"),
		"bin/empty":                      file(""),
		"lib/x86_64-linux-gnu/libt.so.6": {Data: target},
	}
}

// Env returns the recorded machine, an amd64, with every feature but the given ones.
func Env(t testing.TB, except ...feature.Feature) *env.Env {
	t.Helper()
	return env.New(&env.Options{
		Root: Root(t), Arch: "amd64", Release: "6.12.0-test", Features: Features(except...), BTF: BTF(t),
	})
}
