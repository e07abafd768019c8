package main

import (
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/cdecl"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// typed checks a snippet on the suite's kernel.
func typed(sn snippet) (*types.Program, error) {
	c, err := script.Check("stdin", sn.src, &script.Options{
		System: suiteKernel(sn.oldKernel), Unsafe: sn.unsafe, Params: sn.params, Arch: "amd64",
		Environ: allFeatures,
	})
	if err == nil && len(c.Warnings) > 0 {
		err = warned{c.Warnings}
	}
	return c.Types, err
}

// allFeatures is an environment in which unstable features are enabled, as the suite's tests of
// types have it.
func allFeatures(name string) (string, bool) {
	return "enable", strings.HasPrefix(name, "BPFTRACE_UNSTABLE_")
}

// warned is the error of a script that is accepted with warnings.
type warned struct{ syntax.Errors }

// kernel has the types that the suite's tests use, from their declarations in C.
type kernel struct {
	decls *cdecl.Decls
	old   bool
}

// kernelText declares the types and functions of the suite's own kernel. An argument is a
// field of a struct with the function's name.
const kernelText = `
enum FooEnum { VALUE };
struct Foo1 { int a; char b; long c; };
struct Foo2 { int a; union { struct Foo1 f; struct { char g; }; }; };
struct Foo3 { struct Foo1 *foo1; struct Foo2 *foo2; };
struct Foo4 { int pid; int pgid; unsigned int : 12; unsigned int a : 8; unsigned int b : 1;
	unsigned int c : 3; unsigned int d : 20; };
struct FirstFieldsAreAnonUnion { union { int a; int b; }; int c; };
struct Arrays { int int_arr[4]; char char_arr[8]; char char_arr2[16]; void *ptr_arr[2];
	int multi_dim[3][2]; int zero[0]; int flexible[]; };
struct ArrayWithCompoundData { struct Foo3 *data[2]; };
typedef struct { int a; } AnonStructTypedef;
struct anon_structs { AnonStructTypedef AnonTypedefArray[8];
	struct { int a; int b; struct { int c; int d; } AnonSubArray[2]; } AnonArray[4]; };
struct task_struct { int pid; int pgid; };
struct file { int ino; };
struct vm_area_struct { unsigned long vm_start; unsigned long vm_end; };
struct bpf_iter__task { struct task_struct *task; };
struct bpf_iter__task_file { struct task_struct *task; struct file *file; };
struct bpf_iter__task_vma { struct task_struct *task; struct vm_area_struct *vma; };
struct bpf_map {};
struct sock { int cookie; };
typedef unsigned long size_t;
struct args_func_1 { int a; struct Foo1 *foo1; struct Foo2 *foo2; struct Foo3 *foo3;
	struct Foo4 *foo4; struct Foo3 *retval__; };
struct args_func_2 { int a; int *b; struct Foo1 *foo1; struct Foo3 *retval__; };
struct args_func_3 { int a; int *b; struct Foo1 *foo1; struct Foo3 *retval__; };
struct args_func_arrays { struct Arrays *arr; struct Arrays *retval__; };
struct args_func_array_with_compound_data { struct ArrayWithCompoundData *arr; };
struct args_func_anon_struct { struct anon_structs *AnonStruct; AnonStructTypedef *AnonTypedef; };
struct args_tcp_shutdown { struct sock *sk; int how; };
struct args_event_rt { long first_real_arg; };
struct args_bpf_map_sum_elem_count { struct bpf_map *map; long retval__; };
struct args_main { int retval__; };
struct args_sched_one { unsigned long common_field; };
struct var_process_counts { unsigned long v; };
`

func suiteKernel(old bool) *kernel {
	d, err := cdecl.Parse("kernel", []byte(kernelText), &cdecl.Options{Arch: "amd64"})
	if err != nil {
		panic(err)
	}
	return &kernel{d, old}
}

func (k *kernel) Type(name string) btf.Type {
	for _, t := range k.decls.Types {
		full := t.Name
		if t.Kind != cdecl.Typedef {
			full = t.Kind.String() + " " + t.Name
		}
		if full == name {
			return t.Type
		}
	}
	return basic[name]
}

// basic are C's types, and those that every kernel defines.
var basic = map[string]btf.Type{
	"char":               &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed},
	"unsigned char":      &btf.Int{Name: "unsigned char", Size: 1},
	"short":              &btf.Int{Name: "short", Size: 2, Encoding: btf.Signed},
	"unsigned short":     &btf.Int{Name: "unsigned short", Size: 2},
	"int":                &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
	"unsigned int":       &btf.Int{Name: "unsigned int", Size: 4},
	"long":               &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed},
	"unsigned long":      &btf.Int{Name: "unsigned long", Size: 8},
	"long long":          &btf.Int{Name: "long long", Size: 8, Encoding: btf.Signed},
	"unsigned long long": &btf.Int{Name: "unsigned long long", Size: 8},
}

func (k *kernel) Enumerator(name string) (*btf.Enum, uint64) {
	e, ok := k.Type("enum FooEnum").(*btf.Enum)
	if !ok || name != "VALUE" {
		return nil, 0
	}
	return e, 0
}

func (k *kernel) Args(a *syntax.AttachPoint) *btf.Struct {
	s, ok := k.Type("struct args_" + a.Func).(*btf.Struct)
	if !ok {
		return nil
	}
	var kept []btf.Member
	for _, m := range s.Members {
		if m.Name == "retval__" {
			if a.Provider != "fexit" {
				continue
			}
			m.Name = "$retval"
		}
		kept = append(kept, m)
	}
	return &btf.Struct{Name: a.Provider + "_args", Size: s.Size, Members: kept}
}

func (k *kernel) Func(name string) *btf.Func {
	proto := k.prototype(name)
	if proto == nil {
		return nil
	}
	return &btf.Func{Name: name, Type: proto, Linkage: btf.GlobalFunc}
}

func (k *kernel) prototype(name string) *btf.FuncProto {
	number := func(name string, size uint32) btf.Type {
		return &btf.Int{Name: name, Size: size, Encoding: btf.Signed}
	}
	switch name {
	case "foo":
		return &btf.FuncProto{Return: number("int32", 4), Params: []btf.FuncParam{
			{Name: "a", Type: number("int32", 4)}, {Name: "b", Type: number("int64", 8)},
		}}
	case "bar":
		return &btf.FuncProto{Return: number("int64", 8), Params: []btf.FuncParam{
			{Name: "a", Type: number("int64", 8)},
		}}
	}
	if name != "bpf_map_sum_elem_count" {
		return nil
	}
	s, ok := k.Type("struct args_" + name).(*btf.Struct)
	if !ok {
		return nil
	}
	return &btf.FuncProto{
		Return: basic["long"], Params: []btf.FuncParam{{Name: "map", Type: s.Members[0].Type}},
	}
}

func (k *kernel) Variable(name string) btf.Type {
	if name == "process_counts" {
		return basic["unsigned long"]
	}
	return nil
}

func (k *kernel) Has(string) bool { return !k.old }
