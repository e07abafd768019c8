package system_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
	"github.com/borescope/borescope/probe/script/system"
	"github.com/borescope/borescope/probe/script/types"
)

// check checks a script for a machine.
func check(t *testing.T, s *system.System, text string) (*types.Script, error) {
	t.Helper()
	c, err := script.Check("stdin", text, &script.Options{System: s, Arch: "amd64"})
	return c.Types, err
}

// TestArgs: the types of arguments on a recorded machine, from the type of @.
func TestArgs(t *testing.T) {
	s := system.New(probetest.Env(t), &system.Options{DWARF: true})
	for _, test := range []struct{ name, script, want string }{
		{"fentry", `fentry:vfs_read { @ = args.count; }`, "uint64"},
		{"fentryMember", `fentry:vfs_read { @ = args.file.f_flags; }`, "uint32"},
		{"fentryVmlinux", `fentry:vmlinux:vfs_read { @ = args.file.f_flags; }`, "uint32"},
		{"fexit", `fexit:vfs_read { @ = retval; }`, "int64"},
		{"narrow", `fexit:narrow { @ = retval; }`, "uint8"},
		{"rawtracepoint", `rawtracepoint:sched_switch { @ = args.next.pid; }`, "int32"},
		{"tracepointText", `tracepoint:sched:sched_switch { @ = args.prev_comm; }`, "string[16]"},
		{"tracepointInt", `tracepoint:sched:sched_switch { @ = args.prev_pid; }`, "int32"},
		{"dataLoc", `tracepoint:sched:sched_switch { @ = args.cmd; }`, "int64"},
		{"dataLocText", `tracepoint:sched:sched_switch { @ = str(args.cmd); }`, "string[1024]"},
		{"pointer", `tracepoint:syscalls:sys_enter_openat { @ = args.filename; }`, "int8 *"},
		{"wild", `tracepoint:sc*:sched_sw* { @ = args.prev_pid; }`, "int32"},
		{"wildFentry", `fentry:vfs_* { @ = args.count; }`, "uint64"},
		{"iterator", `iter:task { @ = ctx.task.pid; }`, "int32"},
		{"cast", `kprobe:vfs_read { @ = ((struct file *)arg0).f_flags; }`, "uint32"},
		{"typedef", `kprobe:vfs_read { @ = (size_t)arg2; }`, "uint64"},
		{"uprobe", `uprobe:/bin/target:add { @ = args.a; }`, "int64"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := check(t, s, test.script)
			if err != nil {
				t.Fatal(syntax.ErrorText(err))
			}
			if _, v := p.Map("@"); v.String() != test.want {
				t.Errorf("@ is %v, want %s", v, test.want)
			}
		})
	}
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}

// TestRefused: errors for what this machine does not have.
func TestRefused(t *testing.T) {
	s := system.New(probetest.Env(t, feature.BPFLoop, feature.KtimeTAI), nil)
	for _, test := range []struct{ name, script, want string }{
		{"function", `fentry:nosuch { @ = args.a; }`, "No matches for fentry nosuch."},
		{"argument", `fentry:vfs_read { @ = args.nosuch; }`, "Can't find function parameter nosuch"},
		{"tracepoint", `tracepoint:sched:nosuch { @ = args.a; }`, "No matches for tracepoint sched:nosuch."},
		{"struct", `begin { @ = ((struct nosuch *)0).a; }`, `unknown type "struct nosuch"`},
		{"union", `begin { @ = ((union file *)0).a; }`, `unknown type "union file"`},
		{"noDWARF", `uprobe:/bin/target:add { @ = args.a; }`, "Unable to resolve unique type name."},
		{"program", `fentry:bpf:1:f { @ = args.a; }`, "The args builtin cannot be used"},
		{"tai", `begin { @ = nsecs(tai); }`, "Kernel does not support tai timestamp"},
		{"nothingMatches", `tracepoint:x*:* { @ = args.a; }`, "Probe has no valid attach points."},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := check(t, s, test.script)
			if err == nil || !strings.Contains(syntax.ErrorText(err), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}

// TestMissing: before, the script was refused for the arguments of a missing tracepoint, whatever
// missing_probes said; without arguments it was accepted.
func TestMissing(t *testing.T) {
	const (
		both        = ` tracepoint:syscalls:sys_enter_openat, tracepoint:no:such { @ = args.filename; }`
		untraceable = `nosuch is not traceable (either non-existing, inlined, or marked as "notrace")`

		alone = both + ` tracepoint:no:such { @ = 1; } rawtracepoint:nosuch { @ = 2; } begin { }`
	)
	for _, test := range []struct {
		name, script string
		points       int
		errors       []string
		warnings     []string
	}{
		{"error", both, 0, []string{"No matches for tracepoint no:such."}, nil},
		{"withoutArgs", `tracepoint:no:such { @ = 1; }`, 0, []string{"No matches for tracepoint no:such."}, nil},
		{"raw", `rawtracepoint:nosuch { @ = 1; }`, 0, []string{"Probe has no valid attach points."}, nil},
		{"warn", `config = { missing_probes = "warn" }` + alone, 2, nil, []string{
			"No matches for tracepoint no:such. Skipping.", "No matches for tracepoint no:such. Skipping.",
			"It is being removed", "It is being removed",
		}},
		{"rawOfModule", `rawtracepoint:mod:nosuch, begin { @ = 1; }`, 2, nil, nil}, // its types are not known
		{"rawOfNoModule", `rawtracepoint:nonsense:nosuch, begin { @ = 1; }`, 0, []string{"No matches for rawtracepoint nonsense:nosuch."}, nil},
		{"rawOfKernel", `rawtracepoint:vmlinux:nosuch { @ = 1; }`, 0, []string{"No matches for rawtracepoint vmlinux:nosuch."}, nil},
		{"ignore", `config = { missing_probes = "ignore" }` + alone, 2, nil, nil},
		// Missing functions were refused when the script was compiled.
		{"kprobe", `kprobe:nosuch { @ = 1; }`, 0, []string{untraceable, "No matches for kprobe nosuch."}, []string{untraceable}},
		{
			"kretprobe", `kretprobe:nosuch, kprobe:vfs_read { @ = 1; }`, 0,
			[]string{untraceable, "No matches for kretprobe nosuch."},
			[]string{untraceable},
		},
		{
			"module", `kprobe:nonsense:vfs_read { @ = 1; }`, 0, []string{
				"specified module nonsense in probe kprobe:nonsense:vfs_read is not loaded.",
				"No matches for kprobe nonsense:vfs_read.",
			}, nil,
		},
		{
			"kernel", `kretprobe:vmlinux:nosuch { @ = 1; }`, 0,
			[]string{untraceable, "No matches for kretprobe vmlinux:nosuch."},
			[]string{untraceable},
		},
		{"moduleWild", `kprobe:vmlinu*:vfs_read { @ = 1; }`, 1, nil, nil},
		{"fentry", `fentry:vfs_read, fentry:nosuch { @ = 1; }`, 0, []string{"No matches for fentry nosuch."}, nil},
		{"fexitWarn", `config = { missing_probes = "warn" } fexit:vmlinux:nosuch, begin { @ = 1; }`, 1, nil, []string{
			"No matches for fexit vmlinux:nosuch. Skipping.",
		}},
		{"ignoreFunction", `config = { missing_probes = "ignore" } kprobe:nosuch, fentry:nosuch, begin { @ = 1; }`, 1, nil, nil},
		// The kernel hangs if they are traced.
		{"unstable", `kprobe:rcu_* { @ = 1; }`, 0, []string{"Probe has no valid attach points."}, nil},
		{"kprobes", `kprobe:nosuch*, kprobe:vfs_* { @ = 1; }`, 1, nil, nil},
		{"onlyKprobes", `kprobe:nosuch* { @ = 1; }`, 0, []string{"Probe has no valid attach points."}, nil},
		{"uprobe", `uprobe:/bin/target:nosuch { @ = 1; }`, 0, []string{"No matches for uprobe /bin/target:nosuch."}, nil},
		{"file", `uretprobe:/bin/nosuch:add { @ = 1; }`, 0, []string{"No matches for uretprobe /bin/nosuch:add."}, nil},
		{"uprobes", `uprobe:/bin/target:nosuch*, uprobe:/bin/target:add, uretprobe:/bin/target:a* { @ = 1; }`, 2, nil, nil},
		{"functionWarn", `config = { missing_probes = "warn" } kprobe:nosuch, uprobe:/bin/target:add { @ = 1; }`, 1, nil, []string{
			untraceable, "No matches for kprobe nosuch. Skipping.",
		}},
		{"wild", `tracepoint:no:such*, begin { @ = 1; }`, 1, nil, nil},
		{"onlyWild", `tracepoint:no:such* { @ = 1; }`, 0, []string{"Probe has no valid attach points."}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := probetest.Root(t)
			root["sys/module/mod/refcnt"] = &fstest.MapFile{}
			env := probe.NewEnv(&probe.EnvOptions{Root: root, Features: probetest.Features(), BTF: probetest.BTF(t), Release: "6.12.0", Arch: "amd64"})
			c, err := script.Check("stdin", test.script, &script.Options{System: system.New(env, nil), Arch: "amd64"})
			said, _ := errors.AsType[syntax.Errors](err)
			messages(t, "errors", said, test.errors)
			if messages(t, "warnings", c.Warnings, test.warnings); err != nil {
				return
			}
			points := 0
			for _, d := range c.File.Decls {
				if p, ok := d.(*syntax.Probe); ok {
					points += len(p.Points)
				}
			}
			if points != test.points {
				t.Errorf("%d points are left, want %d", points, test.points)
			}
		})
	}
}

// TestUnsafe: kprobes on functions that are not there are kept for the kernel to refuse, and those
// of a list that the caller gives are the only ones.
func TestUnsafe(t *testing.T) {
	for _, test := range []struct {
		name, script, list string
		o                  system.Options
		points             int
		errors, warnings   []string
	}{
		{"kept", `kprobe:nosuch { @ = 1; }`, "", system.Options{Unsafe: true}, 1, nil, []string{"nosuch is not traceable"}},
		{"unlisted", `kprobe:vfs_read { @ = 1; }`, "vfs_write\n", system.Options{Traceable: true}, 0, []string{
			"vfs_read is not traceable", "No matches for kprobe vfs_read.",
		}, []string{"vfs_read is not traceable"}},
		{"listed", `kprobe:vfs_read, kretprobe:vfs_r* { @ = 1; }`, "vfs_read\n", system.Options{Traceable: true}, 2, nil, nil},
		{"wild", `kprobe:vfs_w* { @ = 1; }`, "vfs_read\n", system.Options{Traceable: true}, 0, []string{
			"Probe has no valid attach points.",
		}, nil},
		{
			"unlistedKept", `kprobe:vfs_read { @ = 1; }`, "",
			system.Options{Unsafe: true, Traceable: true},
			1,
			nil,
			[]string{"vfs_read is not traceable"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := probe.NewEnv(&probe.EnvOptions{
				Root: probetest.Root(t), Features: probetest.Features(), BTF: probetest.BTF(t), Release: "6.12.0", Arch: "amd64",
				Traceable: []byte(test.list),
			})
			c, err := script.Check("stdin", test.script, &script.Options{System: system.New(env, &test.o), Arch: "amd64"})
			said, _ := errors.AsType[syntax.Errors](err)
			messages(t, "errors", said, test.errors)
			messages(t, "warnings", c.Warnings, test.warnings)
			points := 0
			for _, d := range c.File.Decls {
				points += len(d.(*syntax.Probe).Points)
			}
			if err == nil && points != test.points {
				t.Errorf("%d points are left, want %d", points, test.points)
			}
		})
	}
}

// messages compares messages with parts of them.
func messages(t *testing.T, what string, got syntax.Errors, want []string) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(e *syntax.Error, part string) bool {
		return strings.Contains(e.Msg, part)
	}) {
		t.Errorf("%s are\n%swant %q", what, got.String(), want)
	}
}

// TestTypes: types, enumerators, functions and variables by their names.
func TestTypes(t *testing.T) {
	u32 := &btf.Int{Name: "unsigned int", Size: 4}
	color := &btf.Enum{Name: "color", Size: 4, Values: []btf.EnumValue{{Name: "RED", Value: 7}}}
	again := &btf.Enum{Name: "paint", Size: 4, Values: []btf.EnumValue{{Name: "RED", Value: 8}}}
	proto := &btf.FuncProto{Return: u32}
	spec := probetest.Spec(t, []btf.Type{
		color, again, &btf.Func{Name: "bpf_d_path", Type: proto, Linkage: btf.StaticFunc},
		&btf.Var{Name: "counts", Type: u32, Linkage: btf.StaticVar},
		&btf.Struct{Name: "same", Size: 4, Members: []btf.Member{{Name: "a", Type: u32}}},
		&btf.Typedef{Name: "same", Type: u32},
	})
	s := system.New(probe.NewEnv(&probe.EnvOptions{
		Root: probetest.Root(t), Arch: "amd64", Release: "6.12.0", BTF: spec,
	}), nil)
	if e, v := s.Enumerator("RED"); e == nil || e.Name != "color" || v != 7 {
		t.Errorf("RED is %v of %v, want 7 of color, which is first", v, e)
	}
	if e, _ := s.Enumerator("BLUE"); e != nil {
		t.Errorf("BLUE is of %v", e)
	}
	if _, ok := s.Type("struct same").(*btf.Struct); !ok {
		t.Error("struct same is no struct")
	}
	if _, ok := s.Type("same").(*btf.Typedef); !ok {
		t.Error("same is no typedef")
	}
	if s.Func("bpf_d_path") == nil || s.Func("nosuch") != nil || !s.Has("d_path") {
		t.Error("functions are not those of the kernel")
	}
	if s.Variable("counts") == nil || s.Variable("color") != nil {
		t.Error("variables are not those of the kernel")
	}
	for name, size := range map[string]int{
		"unsigned long int": 8, "long long": 8, "char": 1, "short unsigned int": 2, "signed": 4,
	} {
		if got, err := btf.Sizeof(s.Type(name)); err != nil || got != size {
			t.Errorf("%s has %d bytes (%v), want %d", name, got, err, size)
		}
	}
	for _, name := range []string{"", "long long long", "long short", "unsigned x", "struct"} {
		if got := s.Type(name); got != nil {
			t.Errorf("%q is %v", name, got)
		}
	}
}

// TestRawEnumerators: the names of a script are looked up together in a recorded kernel's own
// BTF, and so are those of a later script.
func TestRawEnumerators(t *testing.T) {
	root := probetest.Root(t)
	root["sys/kernel/btf/vmlinux"] = &fstest.MapFile{Data: probetest.RawBTF(t, []btf.Type{
		&btf.Enum{Name: "color", Size: 4, Values: []btf.EnumValue{{Name: "RED", Value: 7}, {Name: "BLUE", Value: 9}}},
		&btf.Enum{Name: "size", Size: 8, Values: []btf.EnumValue{{Name: "BIG", Value: 1 << 40}}},
	})}
	s := system.New(probe.NewEnv(&probe.EnvOptions{Root: root, Arch: "amd64", Release: "6.12.0"}), nil)
	for script, want := range map[string]string{
		`begin { @ = RED; }`:                                   "enum color",
		`begin { @ = BIG; }`:                                   "enum size",
		`begin { @ = BLUE; print(AF_INET); }`:                  "enum color",
		`begin { @ = AF_INET; }`:                               "int8",
		`enum mine { BLUE = 2 }; begin { @ = BLUE; }`:          "enum mine",
		`begin { print(NOSUCH); }`:                             "",
		`begin { @ = RED; print(NOSUCH); print(NOSUCH_TOO); }`: "",
	} {
		p, err := check(t, s, script)
		if err != nil {
			if want != "" || !strings.Contains(syntax.ErrorText(err), "Unknown identifier: 'NOSUCH'") {
				t.Errorf("%s: %s", script, syntax.ErrorText(err))
			}
			continue
		}
		if _, v := p.Map("@"); v.String() != want {
			t.Errorf("%s: @ is %v, want %s", script, v, want)
		}
	}
	if e, v := s.Enumerator("BLUE"); e == nil || e.Name != "color" || v != 9 {
		t.Errorf("BLUE is %v of %v", v, e)
	}
}

// TestExpand: points with wildcards become their matches, those without one are dropped.
func TestExpand(t *testing.T) {
	s := system.New(probetest.Env(t), nil)
	f, err := syntax.Parse("stdin", []byte(
		`tracepoint:s*:*,kprobe:vfs_*,fexit:vfs_*,tracepoint:no:such* { @ = 1; }`), nil)
	if err == nil {
		err = attach.Parse(f, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Expand(f, nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range f.Decls[0].(*syntax.Probe).Points {
		got = append(got, a.Provider+":"+a.Target+":"+a.Func)
	}
	want := []string{
		"tracepoint:sched:sched_switch", "tracepoint:syscalls:sys_enter_openat", "kprobe::vfs_*",
		"fexit:vmlinux:vfs_read", "fexit:vmlinux:vfs_write",
	}
	if !slices.Equal(got, want) {
		t.Errorf("points are\n%q\nwant\n%q", got, want)
	}
}

// TestNoTypes: a machine without BTF has no types, and Err returns an error.
func TestNoTypes(t *testing.T) {
	s := system.New(probe.NewEnv(&probe.EnvOptions{
		Root: probetest.Root(t), Arch: "amd64", Release: "4.9.0",
	}), &system.Options{Modules: []string{"ext4"}})
	if s.Err() != nil {
		t.Errorf("before anything is asked: %v", s.Err())
	}
	if s.Type("struct file") != nil || !errors.Is(s.Err(), errors.ErrUnsupported) {
		t.Errorf("error is %v, want one that says that there are no types", s.Err())
	}
	if !s.Has("d_path") || s.Has("loop") || !s.Has("another") {
		t.Error("features are not those of the kernel")
	}
}

// TestBytes: arrays of bytes in the kernel's structs are texts, whatever BTF calls a byte. In
// the script's own structs only arrays of char are texts, with room for a 0 at the end.
func TestBytes(t *testing.T) {
	u8 := &btf.Int{Name: "unsigned char", Size: 1}
	plain := &btf.Int{Name: "char", Size: 1} // as pahole writes it, without an encoding
	index := &btf.Int{Name: "unsigned int", Size: 4}
	spec := probetest.Spec(t, []btf.Type{
		&btf.Struct{Name: "k", Size: 24, Members: []btf.Member{
			{Name: "a", Type: &btf.Array{Index: index, Type: u8, Nelems: 4}},
			{Name: "b", Type: &btf.Array{Index: index, Type: plain, Nelems: 4}, Offset: 32},
			{Name: "c", Type: &btf.Array{Index: index, Type: index, Nelems: 4}, Offset: 64},
		}},
	})
	s := system.New(probe.NewEnv(&probe.EnvOptions{
		Root: probetest.Root(t), Arch: "amd64", Release: "6.12.0", BTF: spec,
	}), nil)
	const script = `struct s { unsigned char a[4]; char b[4]; struct { char d[2]; } in; struct k *p; struct k k; };
kprobe:vfs_read {
	@ka = ((struct k *)arg0).a; @kb = ((struct k *)arg0).b; @kc = ((struct k *)arg0).c;
	@sa = ((struct s *)arg0).a; @sb = ((struct s *)arg0).b; @sd = ((struct s *)arg0).in.d;
	@pa = ((struct s *)arg0).p.a; @va = ((struct s *)arg0).k.a;
}`
	p, err := check(t, s, script)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	for name, want := range map[string]string{
		"@ka": "string[4]", "@kb": "string[4]", "@kc": "uint32[4]", "@sa": "uint8[4]", "@sb": "string[5]",
		"@sd": "string[3]", "@pa": "string[4]", "@va": "string[4]",
	} {
		if _, v := p.Map(name); v.String() != want {
			t.Errorf("%s is %v, want %s", name, v, want)
		}
	}
}
