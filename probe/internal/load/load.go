// Package load loads programs, including those that cilium/ebpf cannot load.
package load

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
)

// Fsession is BPF_TRACE_FSESSION (Linux 7.0), which cilium/ebpf does not define.
const Fsession = ebpf.AttachType(58)

// Collection implements probe.LoadCollection. When ctx ends, so does loading, and nothing of it
// is left.
func Collection(ctx context.Context, spec *ebpf.CollectionSpec,
	o ebpf.CollectionOptions,
) (*ebpf.Collection, error) {
	own := map[string]*ebpf.ProgramSpec{}
	if spec != nil {
		for name, p := range spec.Programs {
			if p.AttachType == Fsession {
				own[name] = p
			}
		}
	}
	if len(own) == 0 {
		return inSteps(ctx, spec, o)
	}
	if o.Cache == nil {
		o.Cache = btf.NewCache()
	}
	rest := spec.Copy()
	for name := range own {
		delete(rest.Programs, name)
	}
	coll, err := inSteps(ctx, rest, o)
	if err != nil {
		return nil, err
	}
	for name, p := range own {
		err := ctx.Err()
		if err == nil {
			err = addProgram(coll, name, p, o.Cache)
		}
		if err != nil {
			coll.Close()
			return nil, fmt.Errorf("program %s: %w", name, err)
		}
	}
	return coll, nil
}

// step is how many programs are loaded between two looks at the context. The verifier may take
// seconds for a large program; most take milliseconds.
const step = 4

// inSteps loads a collection: its maps first, and then its programs in steps, if there is a
// context that may end.
func inSteps(ctx context.Context, spec *ebpf.CollectionSpec,
	o ebpf.CollectionOptions,
) (*ebpf.Collection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if ctx.Done() == nil || spec == nil || len(spec.Programs) <= step {
		coll, err := ebpf.NewCollectionWithOptions(spec, o)
		if err != nil {
			return nil, feature.Refused(err)
		}
		return coll, nil
	}
	if o.Cache == nil {
		o.Cache = btf.NewCache()
	}
	part := *spec
	part.Programs = nil
	coll, err := ebpf.NewCollectionWithOptions(&part, o)
	if err != nil {
		return nil, feature.Refused(err)
	}
	o.MapReplacements = coll.Maps
	for names := range slices.Chunk(slices.Sorted(maps.Keys(spec.Programs)), step) {
		part.Programs = make(map[string]*ebpf.ProgramSpec, step)
		for _, name := range names {
			part.Programs[name] = spec.Programs[name]
		}
		if err := addPart(ctx, coll, &part, o); err != nil {
			coll.Close()
			return nil, err
		}
	}
	return coll, nil
}

// addPart loads programs with the collection's maps and adds them to the collection.
func addPart(ctx context.Context, coll *ebpf.Collection, spec *ebpf.CollectionSpec,
	o ebpf.CollectionOptions,
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	part, err := ebpf.NewCollectionWithOptions(spec, o)
	if err != nil {
		return feature.Refused(err)
	}
	defer part.Close()
	for name := range spec.Programs {
		coll.Programs[name] = part.DetachProgram(name)
	}
	return nil
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
