package probe

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestBulkAddresses: the addresses of many functions come from the kernel's list
// of those that a multi link takes, and kallsyms is read for the others only.
func TestBulkAddresses(t *testing.T) {
	const n = maxTyped + 10
	var list strings.Builder
	var targets Set
	for i := range n {
		fmt.Fprintf(&list, "%016x function_%d\n", 0xffffffff81000000+uint64(i)*64, i)
		targets = append(targets, Kprobe{Symbol: fmt.Sprintf("function_%d", i)})
	}
	list.WriteString("ffffffff82000000 twin\nffffffff82000040 twin\nffffffffc0000000 helper [ext4]\n")
	targets = append(targets, Kprobe{Symbol: "twin"}, Kprobe{Symbol: "unlisted"}, Kprobe{Symbol: "nosuch"}, Kprobe{Module: "ext4", Symbol: "helper"}, Kprobe{Module: "vmlinux", Symbol: "helper"})
	root := fstest.MapFS{
		"sys/kernel/tracing/available_filter_functions_addrs": {Data: []byte(list.String())},
		"sys/kernel/tracing/events/header_page":               {},
		// Of a function that both know, the list's address counts.
		"proc/kallsyms": {Data: []byte("ffffffff83000000 t unlisted\nffffffff84000000 t function_0\nffffffffc0000000 t helper\t[ext4]\n")},
	}
	env := NewEnv(&EnvOptions{Root: root, Arch: "amd64", Release: "6.12.0", Features: probetest.Features()})
	var p ProgramPlan
	for _, s := range targets {
		k := s.(Kprobe)
		p.Sites = append(p.Sites, Site{Target: k, Symbol: k.Symbol, Module: k.Module})
	}
	r := &resolver{ctx: t.Context(), env: env, o: &Options{Missing: MissingWarn, AttachType: ebpf.AttachTraceKprobeMulti}, plan: &Plan{}}
	if err := r.addresses(&p, r.listed(&p)); err != nil {
		t.Fatal(err)
	}
	if len(p.Sites) != n+2 || p.Sites[0].Address != 0xffffffff81000000 || p.Sites[n].Address != 0xffffffff83000000 || p.Sites[n+1].Address != 0xffffffffc0000000 {
		t.Errorf("%d sites, the first %+v, the last %+v", len(p.Sites), p.Sites[0], p.Sites[len(p.Sites)-1])
	}
	var missing []string
	for _, m := range r.plan.Missing {
		missing = append(missing, m.Err.Error())
	}
	if len(missing) != 3 || !strings.Contains(missing[0], "2 functions are called twin") || !strings.Contains(missing[1], "nosuch") || !strings.Contains(missing[2], "helper") {
		t.Errorf("missing %q", missing)
	}

	// With none that is missing, kallsyms is not needed at all.
	delete(root, "proc/kallsyms")
	env = NewEnv(&EnvOptions{Root: root, Arch: "amd64", Release: "6.12.0", Features: probetest.Features()})
	p.Sites = nil
	for _, s := range targets[:n] {
		p.Sites = append(p.Sites, Site{Target: s, Symbol: s.(Kprobe).Symbol})
	}
	r = &resolver{ctx: t.Context(), env: env, o: &Options{AttachType: ebpf.AttachTraceKprobeMulti}, plan: &Plan{}}
	if err := r.addresses(&p, r.listed(&p)); err != nil || len(p.Sites) != n || p.Sites[n-1].Address == 0 {
		t.Errorf("%d sites: %v", len(p.Sites), err)
	}
}
