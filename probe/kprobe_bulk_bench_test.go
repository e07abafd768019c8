package probe

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe/internal/probetest"
)

// BenchmarkResolveBulk resolves 10,000 functions for one kprobe.multi link.
func BenchmarkResolveBulk(b *testing.B) {
	const n = 10000
	var syms strings.Builder
	var targets Set
	for i := range 150_000 {
		fmt.Fprintf(&syms, "%016x t some_function_%d\n", 0xffffffff81000000+uint64(i)*64, i)
		if i%15 == 0 && len(targets) < n {
			targets = append(targets, Kprobe{Symbol: fmt.Sprintf("some_function_%d", i)})
		}
	}
	root := fstest.MapFS{"proc/kallsyms": {Data: []byte(syms.String())}}
	b.ReportAllocs()
	for b.Loop() {
		env := NewEnv(&EnvOptions{Root: root, Arch: "amd64", Release: "6.12.0", Features: probetest.Features()})
		p, err := Resolve(env, []Target{targets}, &Options{NoTypes: true, AttachType: ebpf.AttachTraceKprobeMulti})
		if err != nil || len(p.Programs) != 1 || len(p.Programs[0].Sites) != n {
			b.Fatal(err)
		}
	}
}

// BenchmarkListRecorded lists 40,000 kernel functions of a recording: what List
// costs besides the kernel's writing of its list.
func BenchmarkListRecorded(b *testing.B) {
	var funcs strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&funcs, "%016x some_function_of_usual_length_%d\n", 0xffffffff81000000+uint64(i)*64, i-i%50/49)
	}
	root := fstest.MapFS{
		"sys/kernel/tracing/available_filter_functions_addrs": {Data: []byte(funcs.String())},
		"sys/kernel/tracing/events/header_page":               {},
	}
	b.ReportAllocs()
	for b.Loop() {
		env := NewEnv(&EnvOptions{Root: root, Arch: "amd64", Release: "6.12.0", Features: probetest.Features()})
		seq, errOf := List("kprobe:*", &ListOptions{Env: env})
		n, dup := 0, 0
		for l := range seq {
			n++
			if l.Duplicate {
				dup++
			}
		}
		if err := errOf(); err != nil || n != 40_000 || dup == 0 {
			b.Fatal(n, dup, err)
		}
	}
}
