package probe

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// clonesEnv is a machine whose compiler has changed functions: cut exists only as cut.isra.0,
// though BTF has it, as pahole 1.25 writes it; show is the name of two functions, of which BTF
// describes one; own.isra.0 has a prototype of its own in BTF; whole has parts of it elsewhere;
// lto was renamed by the linker.
func clonesEnv(t *testing.T, except ...feature.Feature) *Env {
	t.Helper()
	long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	fn := func(name string, params ...string) btf.Type {
		p := &btf.FuncProto{Return: long}
		for _, n := range params {
			p.Params = append(p.Params, btf.FuncParam{Name: n, Type: long})
		}
		return &btf.Func{Name: name, Linkage: btf.StaticFunc, Type: p, Tags: []string{"bpf_kfunc"}}
	}
	const symbols = `ffffffff81000100 t cut.isra.0
ffffffff81000200 t show
ffffffff81000300 t show
ffffffff81000400 t own.isra.0
ffffffff81000500 t whole
ffffffff81000600 t whole.part.0
ffffffff81000700 t lto.llvm.1234567
ffffffff81000800 t whole.cold
ffffffff81000900 t whole.isra.0.cold.12
ffffffffc0000000 t show	[ext4]
`
	listed := "cut.isra.0\nshow\nshow\nown.isra.0\nwhole\nwhole.part.0\nwhole.cold\n"
	return NewEnv(&EnvOptions{
		Root: fstest.MapFS{
			"proc/kallsyms": {Data: []byte(symbols)},
			"sys/kernel/tracing/available_filter_functions": {Data: []byte(listed)},
			"sys/kernel/tracing/events":                     {Mode: 0o755 | 1<<31},
		},
		Arch: "amd64", Release: "6.12.0-test", Features: probetest.Features(except...),
		BTF: probetest.Spec(t, []btf.Type{
			fn("cut", "a", "b"), fn("show", "dev"), fn("own.isra.0", "b"), fn("whole", "a"), fn("lto", "a"),
		}),
	})
}

// TestChangedKernelFunctions: a prototype in BTF is taken for the function's that it is of, and
// for no other. A trampoline traced the first of several functions with the arguments of any,
// functions that do not exist were resolved, and a return of a clone gave what was left in the
// register.
func TestChangedKernelFunctions(t *testing.T) {
	env := clonesEnv(t)
	for target, want := range map[string]string{
		"fentry:show":                    "2 functions are called show; name one by address",
		"fexit:show":                     "2 functions are called show",
		"fmod_ret:show":                  "2 functions are called show",
		"fentry:cut":                     "cut exists only as cut.isra.0, which the compiler made of it and whose arguments may differ from those in BTF; kprobe:cut.isra.0 probes that",
		"fentry:whole.part.0":            "no prototype in BTF",
		"kprobe:show":                    "3 functions are called show",
		"kprobe:cut":                     "cut.isra.0",
		"kretprobe:whole.cold":           "does not return",
		"kretprobe:whole.isra.0.cold.12": "does not return",
		// what is right
		"fentry:whole":         "",
		"fentry:own.isra.0":    "",
		"fentry:lto":           "",
		"kprobe:whole":         "",
		"kprobe:whole.cold":    "",
		"kretprobe:cut.isra.0": "",
	} {
		for _, o := range []*Options{nil, {AttachType: AttachFentryMulti}} {
			if o != nil && !strings.HasPrefix(target, "fentry:") || o != nil && strings.Contains(target, ".part") {
				continue
			}
			parsed, err := ParseTarget(target)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Resolve(env, []Target{parsed}, o)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", target, err, want)
			}
		}
	}
}

// TestChangedKernelArguments: arguments and values of kernel functions that the compiler has
// changed can be read if BTF has the function's own prototype, and else cannot.
func TestChangedKernelArguments(t *testing.T) {
	env := clonesEnv(t, feature.AttachCookie) // programs are not merged
	const clone, noValue = "may take other arguments", "may not return the value"
	for _, c := range []struct {
		target string
		o      Options
		want   map[string]string // by site: names of arguments, or why there are none
	}{
		{"kprobe:cut.isra.0", Options{}, map[string]string{"cut.isra.0": clone}},
		{"kprobe:own.isra.0", Options{}, map[string]string{"own.isra.0": "b"}},
		{"kprobe:whole.part.0", Options{NoTypes: true, ProgramPerSite: true}, map[string]string{"whole.part.0": clone}},
		{"kprobe:whole", Options{}, map[string]string{"whole": "a"}},
		{"kretprobe:cut.isra.0", Options{}, map[string]string{"cut.isra.0": noValue}},
		{"kretprobe:own.isra.0", Options{}, map[string]string{"own.isra.0": noValue}},
		{"kretprobe:whole", Options{}, map[string]string{"whole": "retval"}},
		{"fexit:own.isra.0", Options{}, map[string]string{"own.isra.0": noValue}},
		{"fentry:own.isra.0", Options{}, map[string]string{"own.isra.0": "b"}},
		{"kretprobe:whole*", Options{ProgramPerSite: true}, map[string]string{"whole": "retval", "whole.part.0": noValue}},
		{"kretprobe:whole*", Options{NoTypes: true, ProgramPerSite: true}, map[string]string{"whole": "retval", "whole.part.0": noValue}},
		{"kprobe:*", Options{NoMulti: true, ProgramPerSite: true}, map[string]string{
			"cut.isra.0": clone, "show": "arg0 arg1 arg2 arg3 arg4 arg5", "own.isra.0": "b",
			"whole": "a", "whole.part.0": clone, "whole.cold": clone,
		}},
		{"fentry:*", Options{}, map[string]string{"own.isra.0": "b", "whole": "a"}},
	} {
		target, err := ParseTarget(c.target)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := Resolve(env, []Target{target}, &c.o)
		if err != nil {
			t.Errorf("%s: %v", c.target, err)
			continue
		}
		got := map[string]string{}
		for i := range plan.Programs {
			p := &plan.Programs[i]
			args := p.Args
			if p.Returns {
				args = []Arg{*p.Ret}
			}
			var names []string
			for _, a := range args {
				if names = append(names, a.Name); a.Loc.Reason != "" {
					names = []string{a.Loc.Reason}
				}
			}
			for _, s := range p.Sites {
				got[s.Symbol] = strings.Join(names, " ")
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: sites %v, want %v", c.target, slices.Sorted(maps.Keys(got)), c.want)
		}
		for site, want := range c.want {
			if !strings.Contains(got[site], want) || got[site] == "" {
				t.Errorf("%s: %s has %q, want %q", c.target, site, got[site], want)
			}
		}
	}
}

// TestListedTrampolines: no function is listed that a trampoline would not trace.
func TestListedTrampolines(t *testing.T) {
	seq, failed := List("fentry:*", &ListOptions{Env: clonesEnv(t), Args: true})
	var got []string
	for m := range seq {
		got = append(got, m.Target.String())
	}
	if err := failed(); err != nil || !slices.Equal(got, []string{"fentry:vmlinux:own.isra.0", "fentry:vmlinux:whole"}) {
		t.Errorf("%q, %v", got, err)
	}
	plan, err := Resolve(clonesEnv(t, feature.TracingMulti), []Target{Fentry{Symbol: "*"}}, &Options{
		AttachType: ebpf.AttachNone,
	})
	if err != nil || len(plan.Programs) != 2 {
		t.Errorf("%v, %v", plan, err)
	}
}
