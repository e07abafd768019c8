package probe

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
)

// prototype is a function's type, from the kernel's BTF or a module's.
func (r *resolver) prototype(module, name string) (*btf.FuncProto, error) {
	spec, err := r.env.BTF()
	if module != "" && module != "vmlinux" {
		spec, err = r.env.ModuleBTF(module)
	}
	if err != nil {
		return nil, err
	}
	protos, err := prototypes(spec, name)
	if err != nil {
		return nil, err
	}
	if len(protos) > 1 {
		return nil, fmt.Errorf("%d functions called %s have different prototypes", len(protos), name)
	}
	return protos[0], nil
}

// prototypes are the distinct types of the functions of that name.
func prototypes(spec *btf.Spec, name string) ([]*btf.FuncProto, error) {
	types, err := spec.AnyTypesByName(name)
	if err != nil {
		return nil, err
	}
	var out []*btf.FuncProto
	for _, t := range types {
		if fn, ok := t.(*btf.Func); ok {
			if p, ok := fn.Type.(*btf.FuncProto); ok {
				out = append(out, p)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s is no function in BTF: %w", name, btf.ErrNotFound)
	}
	return out, nil
}

// bpfPrototype is the type of a function of a loaded BPF program.
func bpfPrototype(id uint32, name string) (*btf.FuncProto, error) {
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
	// A program's types stand alone; only a module's build on the kernel's.
	spec, err := h.Spec(nil)
	if err != nil {
		return nil, fmt.Errorf("BTF of BPF program %d: %w", id, err)
	}
	protos, err := prototypes(spec, name)
	if err != nil {
		return nil, notexist.Errorf("BPF program %d has no function %s%s", id, name, near.Hint(name, functionNames(spec)))
	}
	return protos[0], nil
}

func functionNames(spec *btf.Spec) []string {
	var out []string
	for t, err := range spec.All() {
		if err != nil {
			break
		}
		if fn, ok := t.(*btf.Func); ok {
			out = append(out, fn.Name)
		}
	}
	return out
}
