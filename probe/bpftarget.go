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
