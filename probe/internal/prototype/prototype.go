// Package prototype finds the types of functions in BTF, and lists names that BTF contains as
// the names of types.
package prototype

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/env"
)

// Types returns the types of a module, or the kernel's own if module is empty or "vmlinux".
func Types(e *env.Env, module string) (*btf.Spec, error) {
	if module == "" || module == "vmlinux" {
		return e.BTF()
	}
	return e.ModuleBTF(module)
}

// Of returns a function's type, from the kernel's BTF or a module's.
func Of(e *env.Env, module, name string) (*btf.FuncProto, error) {
	spec, err := Types(e, module)
	if err != nil {
		return nil, err
	}
	protos, err := In(spec, name)
	if err != nil {
		return nil, err
	}
	if len(protos) > 1 {
		return nil, fmt.Errorf("%d functions called %s have different prototypes", len(protos), name)
	}
	return protos[0], nil
}

// ModuleOf returns the module that has the function of that name: "" if the kernel itself has one,
// none has, or several do.
func ModuleOf(e *env.Env, name string) string {
	k, err := e.Functions()
	if err != nil {
		return ""
	}
	module := ""
	for _, s := range k.Lookup("", name) {
		if s.Module == "" || module != "" && module != s.Module {
			return ""
		}
		module = s.Module
	}
	return module
}

// In returns the types of the functions of that name, at least one. The error matches
// btf.ErrNotFound if there is none.
func In(spec *btf.Spec, name string) ([]*btf.FuncProto, error) {
	types, err := spec.AnyTypesByName(name)
	if err != nil {
		return nil, err
	}
	var out []*btf.FuncProto
	for _, t := range types {
		// cilium/ebpf (0.22) leaves every other one of several flavors (name___v2) in the list.
		if fn, ok := t.(*btf.Func); ok && fn.Name == name {
			if p, ok := fn.Type.(*btf.FuncProto); ok {
				out = append(out, p)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s is not a function in BTF: %w", name, btf.ErrNotFound)
	}
	return out, nil
}

// OfProgram returns the type of a function of a loaded BPF program.
func OfProgram(id uint32, name string) (*btf.FuncProto, error) {
	prog, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, notexist.Errorf("no BPF program has the id %d; bpftool prog lists them", id)
		}
		return nil, fmt.Errorf("BPF program %d: %w", id, err)
	}
	defer prog.Close()
	h, err := prog.Handle()
	if err != nil {
		return nil, fmt.Errorf("BPF program %d carries no BTF, which a trampoline needs: %w", id, err)
	}
	defer h.Close()
	// A program's types are complete by themselves; only a module's are based on the kernel's.
	spec, err := h.Spec(nil)
	if err != nil {
		return nil, fmt.Errorf("BTF of BPF program %d: %w", id, err)
	}
	protos, err := In(spec, name)
	if err != nil {
		return nil, notexist.Errorf("BPF program %d has no function %s%s", id, name,
			near.Hint(name, namesIn[*btf.Func](spec, "")))
	}
	return protos[0], nil
}

// Names returns the names of the types of kind T of a module, or of the kernel if module is
// empty or "vmlinux", that begin with prefix, without it, sorted, each once.
func Names[T env.NamedType](e *env.Env, module, prefix string) ([]string, error) {
	if module != "" && module != "vmlinux" {
		spec, err := e.ModuleBTF(module)
		if err != nil {
			return nil, err
		}
		return namesIn[T](spec, prefix), nil
	}
	var out []string
	err := env.EachTypeName[T](e, func(b []byte) {
		if name, ok := bytes.CutPrefix(b, []byte(prefix)); ok {
			out = append(out, string(name))
		}
	})
	slices.Sort(out)
	return slices.Compact(out), err
}

// namesIn is Names for types that are decoded.
func namesIn[T btf.Type](spec *btf.Spec, prefix string) []string {
	var out []string
	for t, err := range spec.All() {
		if err != nil {
			break
		}
		if _, ok := t.(T); ok {
			if name, ok := strings.CutPrefix(t.TypeName(), prefix); ok {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
