package probe_test

import (
	"fmt"
	"testing/fstest"

	"github.com/borescope/borescope/probe"
)

func ExampleParseTarget() {
	t, err := probe.ParseTarget("kprobe:vfs_read+0x10, t:sched:sched_switch")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range t.(probe.Set) {
		fmt.Printf("%T %s\n", m, m)
	}
	_, err = probe.ParseTarget("kprobe:vfs_read+x")
	fmt.Println(err)
	// Output:
	// probe.Kprobe kprobe:vfs_read+16
	// probe.Tracepoint tracepoint:sched:sched_switch
	// target "kprobe:vfs_read+x": column 17: bad offset "x": want a decimal number or one that begins with 0x
}

// Resolve makes a plan for another machine from a recording of its files.
func ExampleResolve() {
	format := `name: sched_process_exit
ID: 310
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;

	field:char comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t pid;	offset:24;	size:4;	signed:1;

print fmt: "comm=%s pid=%d", REC->comm, REC->pid
`
	env := probe.NewEnv(&probe.EnvOptions{
		Arch:    "arm64",
		Release: "6.1.0-50-cloud-arm64",
		Root: fstest.MapFS{
			"sys/kernel/tracing/events/sched/sched_process_exit/format": {Data: []byte(format)},
		},
	})
	plan, err := probe.Resolve(env, []probe.Target{
		probe.Tracepoint{Group: "sched", Name: "sched_process_exit"},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(plan)
	// Output:
	// plan for arm64, Linux 6.1.0-50-cloud-arm64
	// program sched_process_0: group 0, TracePoint, context record, by perf link
	//   field unsigned short common_type @ - (the kernel hides the common fields from programs)
	//   field char comm[16] @ ctx+8
	//   field pid_t pid @ ctx+24
	//   site 0 tracepoint:sched:sched_process_exit
}
