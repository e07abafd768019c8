package probe

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"
	"github.com/ulikunitz/xz"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// rawBTF is a kernel with one function, as /sys/kernel/btf/vmlinux has it.
func rawBTF(t testing.TB) []byte {
	t.Helper()
	i := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	u64 := &btf.Int{Name: "unsigned long", Size: 8}
	ent := &btf.Struct{Name: "trace_entry", Size: 8, Members: []btf.Member{{Name: "type", Type: u64}}}
	return probetest.RawBTF(t, []btf.Type{
		&btf.Func{Name: "from_tree", Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: i, Params: []btf.FuncParam{{Name: "a", Type: i}}}},
		&btf.Struct{Name: "trace_event_raw_thing", Size: 24, Members: []btf.Member{
			{Name: "ent", Type: ent}, {Name: "count", Type: u64, Offset: 64}, {Name: "__data_loc_name", Type: i, Offset: 128},
		}},
	})
}

// TestBTFTree finds BTF in BTFHub's layout, plain and packed, by the host's
// os-release or by the release alone.
func TestBTFTree(t *testing.T) {
	raw := rawBTF(t)
	var packed bytes.Buffer
	x, err := xz.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(x)
	w.WriteHeader(&tar.Header{Name: "5.4.0-1-generic.btf", Size: int64(len(raw)), Mode: 0o644})
	w.Write(raw)
	w.Close()
	x.Close()
	osRelease := &fstest.MapFile{Data: []byte("NAME=x\nID=ubuntu\nVERSION_ID=\"20.04\"\n")}
	for name, tree := range map[string]fstest.MapFS{
		"plain":  {"ubuntu/20.04/x86_64/5.4.0-1-generic.btf": {Data: raw}},
		"packed": {"ubuntu/20.04/x86_64/5.4.0-1-generic.btf.tar.xz": {Data: packed.Bytes()}},
		"other":  {"debian/12/x86_64/5.4.0-1-generic.btf": {Data: raw}},
	} {
		env := NewEnv(&EnvOptions{
			Root: fstest.MapFS{"etc/os-release": osRelease, "proc/sys/kernel/osrelease": {Data: []byte("5.4.0-1-generic\n")}},
			Arch: "amd64", BTFDir: tree, Features: probetest.Features(),
		})
		p, err := Resolve(env, []Target{Fentry{Symbol: "from_tree"}}, nil)
		if err != nil || len(p.Programs[0].Args) != 1 || p.Programs[0].Args[0].Name != "a" || p.BTF == nil {
			t.Errorf("%s: %v\n%v", name, err, p)
		}
	}
	for name, tree := range map[string]fs.FS{
		"none": nil, "empty": fstest.MapFS{}, "broken": fstest.MapFS{"a/b/x86_64/5.4.0-1-generic.btf": {Data: []byte("x")}},
		"not packed": fstest.MapFS{"a/b/x86_64/5.4.0-1-generic.btf.tar.xz": {Data: []byte("x")}},
	} {
		env := NewEnv(&EnvOptions{Root: fstest.MapFS{}, Arch: "amd64", Release: "5.4.0-1-generic", BTFDir: tree, Features: probetest.Features()})
		if _, err := env.BTF(); err == nil {
			t.Errorf("%s: no error", name)
		} else if tree == nil && !isUnsupportedErr(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRecordFields: a tracepoint's record from BTF, where there is no tracefs.
func TestRecordFields(t *testing.T) {
	env := NewEnv(&EnvOptions{
		Root: fstest.MapFS{"sys/kernel/btf/vmlinux": {Data: rawBTF(t)}}, Arch: "amd64", Release: "6.1.0", Features: probetest.Features(),
	})
	p, err := Resolve(env, []Target{Tracepoint{Group: "g", Name: "thing"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"unsigned long count @ ctx+8", "char name[] @ data_loc@16"}
	if got := argStrings(p.Programs[0].Fields); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if _, err := Resolve(env, []Target{Tracepoint{Group: "g", Name: "other"}}, nil); !isUnsupportedErr(err) {
		t.Errorf("neither tracefs nor BTF: %v", err)
	}
}

// TestListRecorded lists every kind from a recorded machine.
func TestListRecorded(t *testing.T) {
	env := probetest.Env(t)
	for pattern, want := range map[string][]string{
		"kprobe:vfs_*":        {"kprobe:vfs_read", "kprobe:vfs_write"},
		"kretprobe:ext4:*":    {"kretprobe:ext4:ext4_sync_fs", "kretprobe:ext4:ext4_sync_file"},
		"fentry:*":            {"fentry:vmlinux:vfs_read", "fentry:vmlinux:vfs_write", "fentry:vmlinux:do_exit", "fentry:vmlinux:nine"},
		"fexit:do_*":          {"fexit:vmlinux:do_exit"},
		"tracepoint:sched:*":  {"tracepoint:sched:sched_switch"},
		"tracepoint:*:*open*": {"tracepoint:syscalls:sys_enter_openat"},
		"rawtracepoint:*":     {"rawtracepoint:sched_switch"},
		"iter:*":              {"iter:task"},
		"lsm:file_*":          {"lsm:file_open"},
		"uprobe:/bin/target:helper*": {
			"uprobe:/bin/target:helper_one", "uprobe:/bin/target:helper_two",
		},
		"usdt:/bin/target":            {"usdt:/bin/target:target:twice", "usdt:/bin/target:target:guarded"},
		"usdt:*":                      {"usdt:/bin/target:target:twice", "usdt:/bin/target:target:guarded"},
		"usdt:/bin/target:target:gu*": {"usdt:/bin/target:target:guarded"},
		"hardware:cache-*":            {"hardware:cache-misses:1000000", "hardware:cache-references:1000000"},
		"profile:hz:99":               {"profile:hz:99"},
		"kprobe:do_*,iter:task":       {"kprobe:do_exit", "iter:task"},
		"kprobe:nosuch*":              nil,
		"kprobe:vmlinu?:do_*":         {"kprobe:do_exit"},
		"kprobe:v*:ext4*":             nil,
		"software:cpu-c*":             {"profile:ms:1"},
		"interval:[mu]s":              {"interval:ms:1", "interval:us:1"},
		"ite?:*":                      {"iter:task"},
		"*:vfs_read": {
			"kprobe:vfs_read", "kretprobe:vfs_read", "fentry:vmlinux:vfs_read", "fexit:vmlinux:vfs_read",
		},
	} {
		var got []string
		seq, errOf := List(pattern, &ListOptions{Env: env, Args: true})
		for l := range seq {
			got = append(got, l.Target.String())
			if _, err := ParseTarget(l.Target.String()); err != nil {
				t.Errorf("%s lists %s: %v", pattern, l.Target, err)
			}
		}
		if err := errOf(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, got %q, want %q", pattern, err, got, want)
		}
	}
	seq, errOf := List("kprobe:vfs_read", &ListOptions{Env: env, Args: true})
	for l := range seq {
		if want := "kprobe:vfs_read\n    struct file *file\n    char *buf\n    size_t count\n    ssize_t *pos"; l.String() != want {
			t.Errorf("got %s", l)
		}
	}
	if err := errOf(); err != nil {
		t.Error(err)
	}
	for pattern, e := range map[string]*Env{
		"kprobe:*": probetest.Env(t, feature.Kprobe, feature.KprobeMulti), "fentry:*": probetest.Env(t, feature.Fentry),
	} {
		seq, errOf := List(pattern, &ListOptions{Env: e})
		for l := range seq {
			t.Errorf("%s: lists %s", pattern, l)
		}
		if !isUnsupportedErr(errOf()) {
			t.Errorf("%s: %v", pattern, errOf())
		}
	}
	if _, errOf := List("nonsense", nil); errOf() != nil {
		t.Error("an error before the loop")
	}
}

// TestModuleMatches: fentry with wildcards takes those with a prototype.
func TestTracingMatches(t *testing.T) {
	p, err := Resolve(probetest.Env(t), []Target{Fentry{Symbol: "vfs_*"}}, nil)
	if err != nil || len(p.Programs) != 2 || p.Programs[1].AttachTo != "vfs_write" || p.Programs[1].Sites[0].Target != (Fentry{Symbol: "vfs_write"}) {
		t.Errorf("%v\n%v", err, p)
	}
	if _, err := Resolve(probetest.Env(t), []Target{Fexit{Symbol: "ext4_*"}}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("functions without prototypes: %v", err)
	}
}
