// Package load loads programs, including those that cilium/ebpf cannot load.
package load

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
)

// Fsession is BPF_TRACE_FSESSION (Linux 7.0), which cilium/ebpf does not define.
const Fsession = ebpf.AttachType(58)

// Collection implements probe.LoadCollection.
func Collection(spec *ebpf.CollectionSpec, o ebpf.CollectionOptions) (*ebpf.Collection, error) {
	own := map[string]*ebpf.ProgramSpec{}
	if spec != nil {
		for name, p := range spec.Programs {
			if p.AttachType == Fsession {
				own[name] = p
			}
		}
	}
	if len(own) == 0 {
		coll, err := ebpf.NewCollectionWithOptions(spec, o)
		if err != nil {
			return nil, feature.Refused(err)
		}
		return coll, nil
	}
	if o.Cache == nil {
		o.Cache = btf.NewCache()
	}
	rest := spec.Copy()
	for name := range own {
		delete(rest.Programs, name)
	}
	coll, err := ebpf.NewCollectionWithOptions(rest, o)
	if err != nil {
		return nil, feature.Refused(err)
	}
	for name, p := range own {
		if err := addProgram(coll, name, p, o.Cache); err != nil {
			coll.Close()
			return nil, fmt.Errorf("program %s: %w", name, err)
		}
	}
	return coll, nil
}

// addProgram loads a program with the collection's maps and adds it to the collection.
func addProgram(coll *ebpf.Collection, name string, spec *ebpf.ProgramSpec,
	types *btf.Cache,
) error {
	p := spec.Copy()
	for i := range p.Instructions {
		ins := &p.Instructions[i]
		if !ins.IsLoadFromMap() || ins.Reference() == "" || ins.Map() != nil {
			continue
		}
		m := coll.Maps[ins.Reference()]
		if m == nil {
			return fmt.Errorf("the collection has no map %s", ins.Reference())
		}
		if err := ins.AssociateMap(m); err != nil {
			return err
		}
	}
	prog, err := loadFsession(p, types)
	if err != nil {
		return fmt.Errorf("load %s for %s: %w", spec.Name, spec.AttachTo, err)
	}
	coll.Programs[name] = prog
	return nil
}
