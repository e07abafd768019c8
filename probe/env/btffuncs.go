package env

import (
	"bytes"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/rawbtf"
)

// BTFNeeds names what a program uses of a kernel's types: Types are structs, unions,
// enums, typedefs and integers by name, without keyword; Funcs functions whose prototypes
// are used; Members the names of the members that are used, of whatever struct, where an
// anonymous member is kept for one inside it; Enumerators names of which the enums that
// have one are kept, those without a name too.
type BTFNeeds = rawbtf.Needs

// MinimalBTF reduces a kernel's BTF, or a part of it, to what is needed: structs
// keep their sizes, and of their members those that are named, at their offsets.
// The result is BTF again, some kilobytes, to be embedded in a program for
// kernels without their own (Options.BTF, or a file of Options.BTFDir). It
// depends on nothing but its arguments; names that are not there are no error.
func MinimalBTF(raw []byte, need *BTFNeeds) ([]byte, error) {
	out, err := rawbtf.Minimal(raw, need)
	if err != nil {
		return nil, fmt.Errorf("minimal BTF: %w", err)
	}
	return out, nil
}

// MinimalBTF returns what is needed of the kernel's types, many times faster than
// BTF, which indexes all of them. If BTF was called before, it returns that.
func (e *Env) MinimalBTF(need *BTFNeeds) (*btf.Spec, error) {
	if spec := e.btfHere.Load(); spec != nil {
		return spec, nil
	}
	raw, done, err := e.rawBTF()
	if err != nil {
		return nil, e.noBTF(err)
	}
	defer done()
	small, err := MinimalBTF(raw, need)
	if err != nil {
		return nil, fmt.Errorf("kernel BTF: %w", err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(small))
	if err != nil {
		return nil, fmt.Errorf("kernel BTF: %w", err)
	}
	return spec, nil
}

// CaptureBTF returns what is needed of the kernel's types as BTF to be kept, and
// its path in a tree of BTFHub's layout (Options.BTFDir).
func (e *Env) CaptureBTF(need *BTFNeeds) (raw []byte, path string, err error) {
	all, done, err := e.rawBTF()
	if err != nil {
		return nil, "", e.noBTF(err)
	}
	defer done()
	if raw, err = MinimalBTF(all, need); err != nil {
		return nil, "", err
	}
	id, version := e.osRelease()
	for _, s := range []*string{&id, &version} {
		if *s == "" {
			*s = "unknown"
		}
	}
	return raw, fmt.Sprintf("%s/%s/%s/%s.btf", id, version, e.hubArch(), e.release), nil
}

// rawBTF gives the kernel's BTF, or its replacement in a tree, until done is called.
func (e *Env) rawBTF() (raw []byte, done func(), err error) {
	raw, done, err = e.ownBTF()
	if err != nil && e.btfDir != nil {
		raw, err = e.hubBTF()
	}
	return raw, done, err
}

// ownBTF gives what the kernel says of itself, until done is called.
func (e *Env) ownBTF() (raw []byte, done func(), err error) {
	if e.live {
		if raw, done, ok := kernel.MapBTF(maxBTF); ok {
			return raw, done, nil
		}
	}
	raw, err = fs.ReadFile(e.root, "sys/kernel/btf/vmlinux")
	return raw, func() {}, err
}

// kernelFuncs calls f with the name of each function that the kernel's BTF knows.
func (e *Env) kernelFuncs(f func(name []byte)) error {
	if raw, done, err := e.ownBTF(); err == nil {
		defer done()
		r, err := rawbtf.New(raw)
		if err != nil {
			return fmt.Errorf("kernel BTF: %w", err)
		}
		for _, name := range r.Funcs {
			f(name)
		}
		return nil
	}
	spec, err := e.BTF() // given by the caller, or from BTFHub's tree
	if err != nil {
		return err
	}
	for typ, err := range spec.All() {
		if err != nil {
			return err
		}
		if fn, ok := typ.(*btf.Func); ok {
			f([]byte(fn.Name))
		}
	}
	return nil
}

// Trampolines returns the kernel's functions by name, with their ids in its types, for a
// trampoline for many of them: 0 of those that it does not take, and of names that
// several have.
func (e *Env) Trampolines() (map[string]uint32, error) { return e.tramps() }

// loadTrampolines finds the kernel's functions by name: their ids for a
// trampoline for many of them, 0 of those that it does not take.
func (e *Env) loadTrampolines() (map[string]uint32, error) {
	raw, done, err := e.ownBTF()
	if err != nil {
		return e.specTrampolines()
	}
	defer done()
	r, err := rawbtf.New(raw)
	if err != nil {
		return nil, fmt.Errorf("kernel BTF: %w", err)
	}
	return r.Trampolines(), nil
}

// specTrampolines is the same by types that the caller gave, or that are from
// BTFHub's tree.
func (e *Env) specTrampolines() (map[string]uint32, error) {
	spec, err := e.BTF()
	if err != nil {
		return nil, err
	}
	out := map[string]uint32{}
	for typ, err := range spec.All() {
		if err != nil {
			return nil, err
		}
		fn, ok := typ.(*btf.Func)
		if !ok {
			continue
		}
		id, err := spec.TypeID(fn)
		if err != nil {
			return nil, err
		}
		proto, ok := fn.Type.(*btf.FuncProto)
		if _, again := out[fn.Name]; again || !ok || !traceableProto(proto) {
			id = 0
		}
		out[fn.Name] = uint32(id)
	}
	return out, nil
}

// traceableProto is rawbtf.Blob.Traceable of a type.
func traceableProto(p *btf.FuncProto) bool {
	size := func(t btf.Type) (n int, aggregate bool) {
		switch u := btf.UnderlyingType(t).(type) {
		case *btf.Void:
			return 0, false
		case *btf.Pointer:
			return 8, false
		case *btf.Int:
			return int(u.Size), false
		case *btf.Enum:
			return int(u.Size), false
		case *btf.Struct:
			return int(u.Size), true
		case *btf.Union:
			return int(u.Size), true
		}
		return -1, false
	}
	if n, aggregate := size(p.Return); n < 0 || aggregate || len(p.Params) > rawbtf.MaxArgs {
		return false
	}
	for _, a := range p.Params {
		if n, _ := size(a.Type); n <= 0 || n > 16 {
			return false
		}
	}
	return true
}
