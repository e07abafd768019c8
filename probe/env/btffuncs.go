package env

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"weak"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/rawbtf"
)

// BTFNeeds names what a program uses of a kernel's types. Types are structs, unions, enums,
// typedefs and integers by name, without keyword. Funcs are functions whose prototypes are
// used, Vars variables. Members are the names of used members, in any struct; an anonymous
// member is kept for a member inside it. If Whole is set, all members are kept, but the structs
// behind pointers only of those that are named. Enumerators are names: enums with one of them are
// kept, including those without a name.
type BTFNeeds = rawbtf.Needs

// MinimalBTF reduces a kernel's BTF, or a part of it, to what need names: structs keep their
// sizes, and only the named members, at their offsets. The result is BTF again, some
// kilobytes, which a program can embed for kernels without their own (Options.BTF, or a file
// of Options.BTFDir). It depends only on its arguments. Names that do not exist are no error.
func MinimalBTF(raw []byte, need *BTFNeeds) ([]byte, error) {
	out, err := rawbtf.Minimal(raw, need)
	if err != nil {
		return nil, fmt.Errorf("minimal BTF: %w", err)
	}
	return out, nil
}

// MinimalBTF returns only the needed types of the kernel. It is many times faster than BTF,
// which indexes all types. If BTF was called before, it returns that Spec.
func (e *Env) MinimalBTF(need *BTFNeeds) (*btf.Spec, error) {
	if spec := e.btfHere.Load(); spec != nil {
		return spec, nil
	}
	small, b, err := e.minimalBTF(need)
	if err != nil {
		return nil, err
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(small))
	if err != nil {
		return nil, fmt.Errorf("kernel BTF: %w", err)
	}
	if need.Whole {
		// What a front end looks up so is compiled soon: that finds the index of the names.
		runtime.AddCleanup(spec, func(*rawbtf.Blob) {}, b)
	}
	return spec, nil
}

// CaptureBTF returns the needed types of the kernel as BTF, to be stored, and its path in a
// tree of BTFHub's layout (Options.BTFDir).
func (e *Env) CaptureBTF(need *BTFNeeds) (raw []byte, path string, err error) {
	if raw, _, err = e.minimalBTF(need); err != nil {
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

func (e *Env) minimalBTF(need *BTFNeeds) ([]byte, *rawbtf.Blob, error) {
	b, err := e.blob(true)
	if err != nil {
		return nil, nil, err
	}
	defer runtime.KeepAlive(b)
	small, err := b.Minimal(need)
	if err != nil {
		return nil, nil, fmt.Errorf("kernel BTF: %w", err)
	}
	return small, b, nil
}

// blob returns the kernel's BTF, with hub or its replacement in a tree. Callers that follow each
// other share it, and the index of its names; when nothing refers to it any more, it is unmapped.
// Keep it alive while you use what it returns.
func (e *Env) blob(hub bool) (*rawbtf.Blob, error) {
	e.blobMu.Lock()
	defer e.blobMu.Unlock()
	if b := e.blobHere.Value(); b != nil && (hub || !e.blobHub) {
		return b, nil
	}
	raw, done, err := e.ownBTF()
	fromHub := err != nil && hub && e.btfDir != nil
	if fromHub {
		raw, err = e.hubBTF()
	}
	if err != nil {
		return nil, e.noBTF(err)
	}
	b, err := rawbtf.New(raw)
	if err != nil {
		done()
		return nil, fmt.Errorf("kernel BTF: %w", err)
	}
	runtime.AddCleanup(b, func(done func()) { done() }, done)
	e.blobHere, e.blobHub = weak.Make(b), fromHub
	return b, nil
}

// ownBTF returns the BTF that the kernel itself provides, valid until done is called.
func (e *Env) ownBTF() (raw []byte, done func(), err error) {
	if e.live {
		if raw, done, ok := kernel.MapBTF(maxBTF); ok {
			return raw, done, nil
		}
	}
	raw, err = fs.ReadFile(e.root, "sys/kernel/btf/vmlinux")
	return raw, func() {}, err
}

// NamedType is a kind of types whose names can be listed.
type NamedType interface {
	btf.Type
	*btf.Func | *btf.Struct | *btf.Typedef
}

// EachTypeName calls f with the name of each of the kernel's types of the kind T. f must copy a
// name that it keeps. The types are not decoded if the kernel itself provides them: decoding
// all takes ten times as long, and 60 MiB.
func EachTypeName[T NamedType](e *Env, f func(name []byte)) error {
	if !e.given {
		b, err := e.blob(false)
		if err == nil {
			defer runtime.KeepAlive(b)
			for _, name := range b.Named(rawKind[T]()) {
				f(name)
			}
			return nil
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			return err // it is there, and wrong
		}
	}
	spec, err := e.BTF() // given by the caller, or from BTFHub's tree
	if err != nil {
		return err
	}
	for typ, err := range spec.All() {
		if err != nil {
			return err
		}
		if t, ok := typ.(T); ok {
			f([]byte(t.TypeName()))
		}
	}
	return nil
}

// rawKind returns the number of a kind in BTF.
func rawKind[T NamedType]() uint32 {
	switch any((*T)(nil)).(type) {
	case **btf.Func:
		return rawbtf.Func
	case **btf.Struct:
		return rawbtf.Struct
	}
	return rawbtf.Typedef
}

// Trampolines returns the ids of the kernel's functions in its types, by name, for a
// trampoline of many functions. The id is 0 for a function that such a trampoline does not
// take, and for a name that several functions have.
func (e *Env) Trampolines() (map[string]uint32, error) { return e.tramps() }

// loadTrampolines reads the result of Trampolines from raw BTF.
func (e *Env) loadTrampolines() (map[string]uint32, error) {
	b, err := e.blob(false)
	if errors.Is(err, errors.ErrUnsupported) {
		return e.specTrampolines()
	}
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(b)
	return b.Trampolines(), nil
}

// specTrampolines is as loadTrampolines, for types that the caller gave or that are from
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

// traceableProto is rawbtf.Blob.Traceable for a type.
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
