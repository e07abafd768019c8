package load

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
)

func loadFsession(spec *ebpf.ProgramSpec, types *btf.Cache) (*ebpf.Program, error) {
	if spec.AttachTarget != nil {
		return nil, errors.New("sessions are for the kernel's functions, not those of BPF programs")
	}
	kern, err := types.Kernel()
	if err != nil {
		return nil, err
	}
	id, module, err := findFunc(kern, spec.AttachTo)
	if err != nil {
		return nil, err
	}
	object := 0
	if module != nil {
		defer module.Close()
		object = module.FD()
	}
	prog, err := kernel.LoadTracing(spec, kern, uint32(id), object)
	if err != nil {
		return nil, feature.Explain(feature.Fsession, err)
	}
	return prog, nil
}

// findFunc finds a function's type in the kernel's own types, or in those of a module. The
// caller closes the module's handle.
func findFunc(kern *btf.Spec, name string) (btf.TypeID, *btf.Handle, error) {
	var f *btf.Func
	err := kern.TypeByName(name, &f)
	if err == nil {
		id, err := kern.TypeID(f)
		return id, nil, err
	}
	if !errors.Is(err, btf.ErrNotFound) {
		return 0, nil, err
	}
	for it := new(btf.HandleIterator); it.Next(); {
		info, err := it.Handle.Info()
		if err != nil || !info.IsModule() {
			continue
		}
		spec, err := it.Handle.Spec(kern)
		if err != nil || spec.TypeByName(name, &f) != nil {
			continue
		}
		id, err := spec.TypeID(f)
		return id, it.Take(), err
	}
	return 0, nil, fmt.Errorf("no function %s in BTF: %w", name, fs.ErrNotExist)
}
