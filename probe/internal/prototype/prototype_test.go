package prototype

import (
	"errors"
	"slices"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestPrototypes: of a recorded kernel, what is a function has a type, and what is none
// is told from it.
func TestPrototypes(t *testing.T) {
	env := probetest.Env(t)
	p, err := Of(env, "vmlinux", "vfs_read")
	if err != nil || len(p.Params) != 4 || p.Params[0].Name != "file" {
		t.Errorf("vfs_read: %v, %v", p, err)
	}
	for _, name := range []string{"no_such_function", "task_struct"} {
		if p, err := Of(env, "", name); !errors.Is(err, btf.ErrNotFound) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

// TestNames: names are sorted, each once, without their prefix.
func TestNames(t *testing.T) {
	env := probetest.Env(t)
	names, err := Names[*btf.Typedef](env, "", "btf_trace_")
	if err != nil || !slices.Contains(names, "sched_switch") || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("raw tracepoints %v, %v", names, err)
	}
	if names, err := Names[*btf.Struct](env, "vmlinux", "vfs_read"); err != nil || len(names) > 0 {
		t.Errorf("a function is no struct: %v, %v", names, err)
	}
	if names, err := Names[*btf.Typedef](env, "nosuch", "btf_trace_"); err == nil {
		t.Errorf("a module that does not exist has %v", names)
	}
}

// TestFlavors: functions are not each other's flavors. Of f, f___v2 and f___v2_impl, as kernels
// from 7.0 on have them, f had the prototypes of two.
func TestFlavors(t *testing.T) {
	long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	var types []btf.Type
	for i, name := range []string{"f", "f___v2", "f___v2_impl"} {
		p := &btf.FuncProto{Return: long, Params: make([]btf.FuncParam, i+1)}
		for k := range p.Params {
			p.Params[k] = btf.FuncParam{Name: string(rune('a' + k)), Type: long}
		}
		types = append(types, &btf.Func{Name: name, Type: p})
	}
	spec := probetest.Spec(t, types)
	for i, name := range []string{"f", "f___v2", "f___v2_impl"} {
		protos, err := In(spec, name)
		if err != nil || len(protos) != 1 || len(protos[0].Params) != i+1 {
			t.Errorf("%s: %v, %v", name, protos, err)
		}
	}
	if p, err := In(spec, "f___v3"); !errors.Is(err, btf.ErrNotFound) {
		t.Errorf("%v, %v", p, err)
	}
}
