package action_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/vmtest/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/ir/bpf"
)

var flagKernels = flag.String("kernels", "", "make testdata/kernels anew of the kernels in this `directory`, as vmtest keeps them")

// kernelFixtures are the kernels whose types are kept, by the names under which
// vmtest keeps their packages.
var kernelFixtures = []string{"5.10-amd64", "6.1-amd64", "6.12-amd64", "6.18-amd64", "6.1-arm64", "6.12-arm64"}

// wentTask is the event of kernelProgram.
type wentTask struct {
	Parent  int32
	Prio    int32
	Waits   uint32
	Started uint64
	Cgroup  uint64
	Port    uint16
	State   uint32
	Name    action.Comm
	File    [32]byte
}

// kernelProgram reads what tools read of tasks, files and sockets, through
// pointers, anonymous members, bit fields and enumerators.
func kernelProgram() *action.Program {
	ev := action.NewEvents[wentTask]("ev", 0)
	p := action.NewProgram("kernel")
	p.On(probe.Kprobe{Symbol: "vfs_read"}, func(c *action.Ctx) {
		task := c.CurTask()
		ev.Emit(c, func(e *wentTask, b *action.Bind) {
			b.Set(&e.Parent, task.Member("real_parent->tgid"))
			b.Set(&e.Prio, task.Member("static_prio"))
			b.Set(&e.Waits, task.Member("in_iowait"))
			b.Set(&e.Started, task.Member("start_time"))
			b.Set(&e.Cgroup, task.Member("cgroups->dfl_cgrp->kn->id"))
			b.Set(&e.Name, task.Member("group_leader->comm").Str(16))
			b.Set(&e.File, c.ArgNamed("file").Ptr().Member("f_path.dentry->d_name.name").Ptr().Str(32))
		})
	})
	p.On(probe.Kprobe{Symbol: "tcp_connect"}, func(c *action.Ctx) {
		sk := c.ArgNamed("sk").Ptr()
		c.ReturnUnless(sk.Member("__sk_common.skc_state").Eq(c.Enum("TCP_SYN_SENT")))
		ev.Emit(c, func(e *wentTask, b *action.Bind) {
			b.Set(&e.Port, sk.Member("__sk_common.skc_dport").Bswap())
			b.Set(&e.State, sk.Member("sk_protocol"))
		})
	})
	return p
}

// kernelEnv is a machine with such a kernel.
func kernelEnv(name string, types *btf.Spec) *probe.Env {
	release, arch, _ := strings.Cut(name, "-")
	return probe.NewEnv(&probe.EnvOptions{
		Arch: arch, Release: release + ".0", BTF: types,
		Root: fstest.MapFS{"proc/kallsyms": {Data: []byte("ffff800080001000 T vfs_read\nffff800080002000 T tcp_connect\n")}},
	})
}

// TestKernelTypes compiles one program for the types of real kernels, which are
// not here: the same source, with each kernel's offsets. testdata/kernels holds
// what the program needs of their BTF; testdata/kernels/README.md says how it is
// made.
func TestKernelTypes(t *testing.T) {
	if *flagKernels != "" {
		for _, name := range kernelFixtures {
			writeKernelFixture(t, name)
		}
	}
	texts := map[string]bool{}
	offsets := map[int]bool{}
	for _, name := range kernelFixtures {
		raw, err := os.ReadFile(filepath.Join("testdata", "kernels", name+".btf"))
		if err != nil {
			t.Fatal(err)
		}
		types, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		env, p := kernelEnv(name, types), kernelProgram()
		plan, err := probe.Resolve(env, p.Targets(), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if plan.BTF == nil {
			plan.BTF = types
		}
		spec, err := bpf.Compile(p.Program, plan)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		off := kernelOffsets(t, name, types, spec)
		offsets[off] = true
		var b strings.Builder
		for i := range plan.Programs {
			fmt.Fprintf(&b, "%s:\n%v\n", plan.Programs[i].Name, withoutLines(spec.Programs[plan.Programs[i].Name]))
		}
		texts[b.String()] = true
		golden := filepath.Join("testdata", "kernels", name+".txt")
		if *flagKernels != "" {
			if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || string(want) != b.String() {
			t.Errorf("%s: differs from %s (%v); if that is meant, see testdata/kernels/README.md", name, golden, err)
		}
	}
	if len(texts) != len(kernelFixtures) || len(offsets) < 4 {
		t.Errorf("%d different programs for %d kernels, with %d different offsets of real_parent", len(texts), len(kernelFixtures), len(offsets))
	}
}

// withoutLines are a program's instructions without this file's line numbers.
func withoutLines(p *ebpf.ProgramSpec) string {
	lines := strings.Split(fmt.Sprint(p.Instructions), "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), ";") }), "\n")
}

// kernelOffsets checks that the program for vfs_read has the offsets of members
// as the BTF itself has them, and returns that of real_parent.
func kernelOffsets(t *testing.T, name string, types *btf.Spec, spec *ebpf.CollectionSpec) int {
	t.Helper()
	var task *btf.Struct
	if err := types.TypeByName("task_struct", &task); err != nil {
		t.Fatal(err)
	}
	has := map[int64]bool{}
	for _, p := range spec.Programs {
		for _, in := range p.Instructions {
			has[in.Constant] = true
		}
	}
	parent := 0
	for _, m := range task.Members {
		switch m.Name {
		case "real_parent":
			parent = int(m.Offset.Bytes())
			fallthrough
		case "static_prio", "start_time", "cgroups", "group_leader":
			if !has[int64(m.Offset.Bytes())] {
				t.Errorf("%s: no instruction has %d, the offset of %s", name, m.Offset.Bytes(), m.Name)
			}
		}
	}
	return parent
}

// writeKernelFixture extracts what the program needs of a kernel's types.
func writeKernelFixture(t *testing.T, name string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(*flagKernels, name, "root", "boot", "vmlinuz-*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: kernels %q, %v", name, found, err)
	}
	image, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	raw, err := kernel.BTF(image)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	small, err := env.MinimalBTF(raw, bpf.BTFNeeds(kernelProgram().Program))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", "kernels", name+".btf"), small, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d bytes of %d", name, len(small), len(raw))
}
