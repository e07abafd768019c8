package system_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
)

// libc is a machine whose kernel has functions that are named as the language's, all static but
// one, as real kernels have.
func libc(t *testing.T) *system.System {
	number := &btf.Int{Name: "unsigned long", Size: 8}
	pointer := &btf.Pointer{Target: &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}}
	function := func(name string, linkage btf.FuncLinkage, params ...btf.Type) btf.Type {
		proto := &btf.FuncProto{Return: number}
		for _, p := range params {
			proto.Params = append(proto.Params, btf.FuncParam{Name: "p", Type: p})
		}
		return &btf.Func{Name: name, Type: proto, Linkage: linkage}
	}
	return system.New(probe.NewEnv(&probe.EnvOptions{
		Root: probetest.Root(t), Arch: "amd64", Release: "6.12.0",
		BTF: probetest.Spec(t, []btf.Type{
			function("join", btf.StaticFunc, pointer, pointer), function("strlen", btf.StaticFunc, pointer),
			function("strstr", btf.StaticFunc, pointer, pointer),
			function("strncmp", btf.StaticFunc, pointer, pointer, number),
			function("memcmp", btf.StaticFunc, pointer, pointer, number),
			function("schedule", btf.StaticFunc), function("exported", btf.GlobalFunc, number),
			&btf.Struct{Name: "task", Size: 16, Members: []btf.Member{
				{Name: "pid", Type: number}, {Name: "flags", Type: number, Offset: 64},
			}},
			&btf.Union{Name: "both", Size: 8, Members: []btf.Member{{Name: "a", Type: number}}},
		}),
	}), nil)
}

// TestNamesOfFunctions: a name of the language means the language's function. Before, the
// kernel's parameters were required: strlen, join and others were refused on real kernels.
func TestNamesOfFunctions(t *testing.T) {
	s := libc(t)
	for _, test := range []struct{ name, script, want, refused string }{
		{"join", `kprobe:vfs_read { join(arg1); join(arg1, ","); @ = 1; }`, "int8", ""},
		{"strlen", `begin { $s = "abc"; @ = strlen($s); }`, "uint64", ""},
		{"strstr", `begin { @ = strstr(comm, "sh"); }`, "int64", ""},
		{"strcontains", `begin { @ = strcontains(comm, "sh"); }`, "bool", ""},
		{"strncmp", `begin { @ = strncmp(comm, "sh", 2); }`, "uint64", ""},
		{"memcmp", `begin { @ = (1, pid) == (1, pid); }`, "bool", ""},
		{"own", `fn f($a : uint64) : uint64 { return $a; } begin { @ = f(1); }`, "uint64", ""},
		// Before, any function of the kernel could be called.
		{"static", `begin { schedule(); }`, "", "Unsupported function linkage: 'schedule'"},
		{"unknown", `begin { nosuch(); }`, "", "Unknown function: 'nosuch'"},
		{"exported", `begin { @ = exported((uint64)1); }`, "uint64", ""},
		{"exists", `begin { if (kfunc_exist("schedule")) { @ = 1; } }`, "int8", ""},
		// Before, only types with a typedef had a size without the word struct.
		{"sizeof", `begin { @ = (uint64)sizeof(task); }`, "uint64", ""},
		{"offsetof", `begin { if comptime (offsetof(task, flags) == 8) { @ = true; } }`, "bool", ""},
		{"union", `begin { if comptime (sizeof(both) == 8) { @ = true; } }`, "bool", ""},
		{"noType", `begin { @ = sizeof(nosuch); }`, "", "nosuch"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := check(t, s, test.script)
			if err != nil {
				if test.refused == "" || !strings.Contains(syntax.ErrorText(err), test.refused) {
					t.Errorf("error is\n%s\nwant %q", syntax.ErrorText(err), test.refused)
				}
				return
			}
			if _, v := p.Map("@"); v.String() != test.want || test.refused != "" {
				t.Errorf("@ is %v, want %s%s", v, test.want, test.refused)
			}
		})
	}
}

// TestTracing: before, socket_cookie and skboutput were refused in raw tracepoints, whose
// programs can call them as those of fentry can.
func TestTracing(t *testing.T) {
	for _, test := range []struct{ point, refused string }{
		{"rawtracepoint:sched_switch", ""},
		{"fentry:vfs_read", ""},
		{"iter:task", ""},
		{"kprobe:vfs_read", `skboutput can not be used with "kprobe" probes`},
	} {
		_, err := script.Check("stdin", test.point+` { $ret = skboutput("f.pcap", (int64 *)1, 1, 0); }`, nil)
		if text := ""; err != nil {
			text = syntax.ErrorText(err)
			if test.refused == "" || !strings.Contains(text, test.refused) {
				t.Errorf("%s: %s", test.point, text)
			}
		} else if test.refused != "" {
			t.Errorf("%s: accepted", test.point)
		}
	}
}

// TestNamedPoints: the builtin probe is another text at each match. Before, it was the pattern
// for kprobes and uprobes.
func TestNamedPoints(t *testing.T) {
	s := system.New(probetest.Env(t), nil)
	for script, want := range map[string][]string{
		`kprobe:vfs_* { @[probe] = count(); }`:            {"kprobe:vfs_read", "kprobe:vfs_write"},
		`kretprobe:vfs_* { @[probe] = count(); }`:         {"kretprobe:vfs_read", "kretprobe:vfs_write"},
		`uprobe:/bin/target:ad* { @[probe] = count(); }`:  {"uprobe:/bin/target:add"},
		`kprobe:vfs_* { @[func] = count(); }`:             {"kprobe:vfs_*"},
		`kprobe:vfs_read* { @[probe] = count(); }`:        {"kprobe:vfs_read"},
		`kprobe:vfs_read { @[probe] = count(); }`:         {"kprobe:vfs_read"},
		`uprobe:/bin/nosuch:a* { @[probe] = count(); }`:   {"uprobe:/bin/nosuch:a*"},
		`tracepoint:sched:* { @[probe] = count(); }`:      {"tracepoint:sched:sched_switch"},
		`kprobe:vfs_*, begin { @[probetype] = count(); }`: {"kprobe:vfs_*", "begin"},
	} {
		points, err := run(t, s, script)
		if err != nil {
			t.Errorf("%s: %s", script, syntax.ErrorText(err))
			continue
		}
		var got []string
		for _, a := range points {
			got = append(got, a.Text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: points are %q, want %q", script, got, want)
		}
	}
}

// TestUntraceable: a machine without fentry types scripts by the functions that its types have.
// Before, a wildcard stayed one there, and its arguments and results were refused.
func TestUntraceable(t *testing.T) {
	s := system.New(probetest.Env(t, feature.Fentry, feature.Fexit), nil)
	for script, want := range map[string]string{
		`fexit:vfs_re* { @ = retval; }`:        "int64",
		`fentry:vfs_* { @ = args.count; }`:     "uint64",
		`fexit:vfs_re* { @ = is_err(retval) }`: "bool",
	} {
		p, err := check(t, s, script)
		if err != nil {
			t.Errorf("%s: %s", script, syntax.ErrorText(err))
			continue
		}
		if _, v := p.Map("@"); v.String() != want {
			t.Errorf("%s: @ is %v, want %s", script, v, want)
		}
	}
}
