package probe

import (
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/golden"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// asked are targets of every kind, right and wrong: what they parse to, plans, errors,
// lists and requirements are held by testdata/kinds.txt, a line each.
const asked = `
kprobe:vfs_read
k:vfs_read
kprobe:vfs_read+4
kprobe:vmlinux:vfs_read
kprobe:ext4:ext4_sync_fs
kprobe:ext4:ext4_*
kprobe:nosuch:vfs_read
kprobe:sys_getppid
kprobe:nine
kprobe:by_value
kprobe:lookup_fast.isra.0
kprobe:vfs_*
kprobe:*
kprobe:nosuch*
kprobe:vfs_reed
kprobe:twin
kprobe:0xffffffff81000100
kprobe:0x1000
kprobe:0
kprobe:"0abc"
kprobe:"vfs_read"+4
kprobe:+4
kprobe:vfs_read+x
kprobe:a:b:c
kprobe:
kprobe
kprobe:vfs_read pid=1
kprobe:vfs_read sleepable
kprobe:vfs_read maxactive=3
kprobe:vfs_read cpus=1
kprobe:vfs_read cgroup=/a
kprobe:vfs_read,kprobe:do_exit
kprobe:vfs_read,kretprobe:vfs_read
kprobe:vfs_read,kprobe:vfs_read
kprobe:vfs_read,fentry:vfs_read,uprobe:/bin/target:add
kprobe:vfs_read,kprobe:nosuch
kretprobe:vfs_read
kr:do_exit
kretprobe:narrow
kretprobe:by_value
kretprobe:vfs_*
kretprobe:ext4:ext4_sync_file
kretprobe:vfs_read maxactive=9
kretprobe:vfs_* maxactive=9
kretprobe:vfs_read maxactive=0
kretprobe:vfs_read maxactive=x
kretprobe:vfs_read+4
kretprobe:twin
kretprobe:nosuch
kretprobe:
fentry:vfs_read
f:vfs_read
kfunc:vfs_read
fentry:vfs_*
fentry:ext4:ext4_sync_fs
fentry:nine
fentry:twin
fentry:printk
fentry:nosuch
fentry:lookup_fast.isra.0
fentry:nosuch*
fentry:bpf:12:prog
fentry:bpf:0:prog
fentry:bpf:x:prog
fentry:a:b:c
fentry:vfs_read+4
fentry:
fexit:vfs_read
fr:do_exit
kretfunc:by_value
fexit:vfs_*
fexit:narrow
fexit:bpf:12:prog
fexit:nosuch
fmod_ret:vfs_read
fmod_ret:vfs_*
fmod_ret:do_exit
fmod_ret:nosuch
fmod_ret:
lsm:file_open
lsm:file_opne
lsm:*
lsm:a:b
lsm:
tracepoint:sched:sched_switch
t:sched:sched_switch
tracepoint:syscalls:sys_enter_openat
tracepoint:syscalls:sys_enter_openat sleepable
tracepoint:sched:sched_switch sleepable
tracepoint:sched:sched_switch sleepable=1
tracepoint:*:*
tracepoint:s*:s*
tracepoint:nosuch:*
tracepoint:sched:sched_swich
tracepoint:shed:sched_switch
tracepoint:sched
tracepoint:a:b:c
tracepoint::x
tracepoint:sched:sched_switch pid=1
rawtracepoint:sched_switch
rt:sched_switch
raw_tracepoint:sched_switch
rawtracepoint:sched_switch sleepable
rawtracepoint:sched_*
rawtracepoint:vmlinux:sched_switch
rawtracepoint:ext4:ext4_x
rawtracepoint:nosuch*
rawtracepoint:sched_swich
rawtracepoint:sys_enter_openat
rawtracepoint:"sched:sched_switch"
rawtracepoint:
uprobe:/bin/target:add
u:/bin/target:add
uprobe:/bin/target:add pid=77
uprobe:/bin/target:add pid=77 pid=78
uprobe:/bin/target:add pid=0
uprobe:/bin/target:add pid=x
uprobe:/bin/target:add+3
uprobe:/bin/target:add+1
uprobe:/bin/target:helper_*
uprobe:/bin/target:*
uprobe:/bin/target:nosuch
uprobe:/bin/target:nosuch*
uprobe:/bin/target:target.c:106
uprobe:/bin/target:target.c:106:3
uprobe:/bin/target:target.c:99999
uprobe:/bin/target:nosuch.c:1
uprobe:/bin/target:target.c:0
uprobe:/bin/target:target.c:106:0
uprobe:/bin/target:target.c:x
uprobe:/bin/target:cpp:add
uprobe:/bin/target:rust:a::b<c>
uprobe:/bin/target:go:main.main
uprobe:/bin/target:cpp:ns::operator+(int)+4
uprobe:/bin/target:"a:b"
uprobe:/bin/target:0x1234
uprobe:/bin/target:0x99999999
uprobe:/bin/*:add
uprobe:/bin/nosuch:add
uprobe:/bin/script:add
uprobe:/bin/empty:add
uprobe:t:add
uprobe:nosuch:add
uprobe::add pid=77
uprobe::add
uprobe:/bin/target:
uprobe:/bin/target
uprobe:/bin/arm:add
uprobe:/bin/target:add,uprobe:/bin/target:helper_*
uprobe:/bin/target:puts
uretprobe:/bin/target:add
ur:/bin/target:add
uretprobe:/bin/target:helper_*
uretprobe:/bin/target:add pid=77
uretprobe:/bin/target:0x10
uretprobe:/bin/target:add+3
uretprobe:/bin/target:cpp:add
uretprobe:/bin/target:a:b
uretprobe:/bin/target:nosuch
uretprobe:/bin/target
usdt:/bin/target:target:*
usdt:/bin/target:guarded
U:/bin/target:target:guarded
usdt:/bin/target:twice
usdt:/bin/target:*
usdt:/bin/target:*:*
usdt:/bin/target:nosuch
usdt:/bin/target:nosuch:guarded
usdt::guarded pid=77
usdt:/bin/target:guarded pid=77
usdt:/bin/script:x
usdt:/bin/target:a:b:c
usdt:/bin/target:
usdt:*
usdt:/bin/target
profile:hz:99
p:99
profile:us:100
profile:s:1
profile:ms:0
profile:hz:x
profile:min:1
profile:s:99999999999999
profile
interval:s:1
i:1
interval:hz:10
interval:hz:9999999999
interval:ms:5 pid=77
interval:s:1 cgroup=/a
interval:s:1 cpus=1
software:page-faults:100
s:faults:1
software:page-faults:
software:page-faults
software:page-faults:0
software:page-faults:1 pid=77
software:page-faults:1 pid=77 cgroup=/a
software:page-faults:1 pid=77 cpus=0
software:page-faults:1 cgroup=/a
software:page-faults:1 cgroup=
software:cycles:1
software:nosuch:1
software:*
hardware:cycles:1000
h:cache-misses
hardware:*
hardware:page-faults
hardware:L1-dcache-load-misses:100
perf:cpu-clock:hz:49 cpus=0,3
perf:cpu-clock:hz:49 cpus=0,2
perf:cpu-clock:hz:49 cpus=
perf:cpu-clock:hz:49 cpus=x
perf:clock:hz:9
perf:clock:period:9
perf:cycles:period:1000
perf:cycles:u:period:1000
perf:"cycles:u":hz:1000
perf:cycles:P:hz:1000
perf:mem:0x1000:8:w:period:1
perf:cycles:foo:9
perf:cycles:period:0
perf:cycles:9
perf:r1234:period:9
watchpoint:0x1000:8:w pid=77
w:0x1000:8:rw pid=77
watchpoint:0x1001:8:w pid=77
watchpoint:0x1000:8:w
watchpoint:jiffies:8:w
watchpoint:nosuch:8:w
watchpoint:0xffffffff81000b00:8:rw
watchpoint:0xffffffff81000b01:8:x
watchpoint:0x1000:3:w
watchpoint:0x1000:8:q
watchpoint:0x1000:8:ww
watchpoint:0x1000:8:rx pid=77
watchpoint:0x1000:8
iter:task
it:task
iter:task pid=77
iter:bpf_map pid=77
iter:tsak
iter:*
iter:
socket:lo
socket:
socket:lo pid=1
begin
BEGIN
end
END
begin:x
begin pid=1
begin,end
begin,kprobe:vfs_read,end
,
kprbe:x
x
`

// ways are options that change plans.
var ways = []Options{
	{},
	{NoTypes: true},
	{NoMulti: true, ProgramPerSite: true},
	{EntryReturn: true, Fallback: true},
	{TracingMulti: true, PreferBTF: true},
	{Sleepable: true, Unsafe: true, DWARF: true, Tag: 7},
	{Missing: MissingWarn, EntryReturn: true, TracingMulti: true},
	{AttachType: ebpf.AttachTraceKprobeMulti, MaxFunctions: 3},
}

// TestKinds: of targets of every kind, on machines of four kernels and on one that lacks
// what kinds need, nothing changes unnoticed. KINDS names a file for the whole text, of
// which testdata/kinds.txt has a hash.
func TestKinds(t *testing.T) {
	kinds := []feature.Feature{feature.Kprobe, feature.Fentry, feature.Fexit, feature.LSM, feature.Iter, feature.Uprobe, feature.Watchpoint, feature.RawTracepoint}
	var envs []*Env
	for _, m := range machines {
		if m.arch == "amd64" {
			envs = append(envs, NewEnv(&EnvOptions{Root: probetest.Root(t), Arch: m.arch, Release: m.release, Features: probetest.Features(m.without...), BTF: probetest.BTF(t)}))
		}
	}
	envs = append(envs, probetest.Env(t, kinds...))
	var all, short strings.Builder
	for _, text := range strings.Split(strings.Trim(asked, "\n"), "\n") {
		sum := fnv.New64a()
		w := io.MultiWriter(&all, sum)
		fmt.Fprintf(w, "# %s\n", text)
		list(w, text, envs)
		target, err := ParseTarget(text)
		if err != nil {
			fmt.Fprintln(w, err)
			fmt.Fprintf(&short, "%s\t%s\t%016x\n", text, "", sum.Sum64())
			continue
		}
		back, err := ParseTarget(target.String())
		if err != nil || back.String() != target.String() {
			t.Errorf("%s prints as %s: %v", text, target, err)
		}
		first := fmt.Sprint(target)
		for i, env := range envs {
			fmt.Fprintln(w, target, Requires(env, []Target{target}))
			for j := range ways {
				o := ways[j]
				p, err := Resolve(env, []Target{target}, &o)
				fmt.Fprintln(w, i, j, err)
				if err == nil {
					fmt.Fprintln(w, p)
				} else if i == 0 && j == 0 {
					first = err.Error()
				}
			}
		}
		fmt.Fprintf(&short, "%s\t%s\t%016x\n", text, first, sum.Sum64())
	}
	if name := os.Getenv("KINDS"); name != "" {
		if err := os.WriteFile(name, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden.Compare(t, "testdata/kinds.txt", short.String())
}

// list prints what is listed by a pattern.
func list(w io.Writer, pattern string, envs []*Env) {
	for _, env := range envs {
		for _, args := range []bool{false, true} {
			seq, errOf := List(pattern, &ListOptions{Env: env, Args: args})
			for l := range seq {
				fmt.Fprintf(w, "%s %s %t %s\n", l, l.Module, l.Duplicate, l.Reason)
			}
			if err := errOf(); err != nil {
				fmt.Fprintln(w, err)
			}
		}
	}
}
