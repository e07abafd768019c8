package system

import (
	"errors"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/prototype"
	"github.com/borescope/borescope/probe/script/types"
)

// Options are the options of [New]. The zero value, and nil, is the default.
type Options struct {
	// Modules are kernel modules whose types are looked through after the kernel's own.
	Modules []string
	// DWARF has the arguments of user functions read from the debug information of their
	// files, which takes from milliseconds to seconds. Without it they have none.
	DWARF bool
	// PID is the process whose executable a user probe without a file is in; 0 is none.
	PID int
}

// System answers scripts' questions from an Env. It holds no descriptor; one goroutine at
// a time may use it. Later scripts are answered from what earlier ones had read.
type System struct {
	env   *probe.Env
	o     Options
	specs []*btf.Spec // the kernel's types and those of modules, once read
	read  bool
	names map[string]bool       // that scripts may ask for as enumerators
	enums map[string]enumerator // by name, without an enum where there is none
	every bool                  // enum has been looked at
	args  map[string]*btf.Struct
	err   error
}

var _ types.System = (*System)(nil)

// New returns a System for the machine of an Env, nil for this one. It reads nothing yet.
func New(e *probe.Env, o *Options) *System {
	if e == nil {
		e = probe.NewEnv(nil)
	}
	s := &System{
		env: e, args: map[string]*btf.Struct{}, names: map[string]bool{},
		enums: map[string]enumerator{},
	}
	if o != nil {
		s.o = *o
	}
	return s
}

// Err returns why the kernel's types could not be read, or those of a module that the
// options name, once a script has asked for one; nil if they could. Scripts then have no
// types but those that they declare.
func (s *System) Err() error { return s.err }

// types are those of the kernel and the modules, read when they are first asked for.
func (s *System) types() []*btf.Spec {
	if s.read {
		return s.specs
	}
	s.read = true
	for _, module := range append([]string{""}, s.o.Modules...) {
		spec, err := prototype.Types(s.env, module)
		if err != nil {
			s.err = errors.Join(s.err, err)
			continue
		}
		s.specs = append(s.specs, spec)
	}
	return s.specs
}

// Type returns a type by its name as C writes it: "struct task_struct", "u32",
// "unsigned long". Nil if there is none, or if the kernel's types cannot be read (Err).
func (s *System) Type(name string) btf.Type {
	if t := integer(name); t != nil {
		return t
	}
	kind, bare := split(name)
	for _, spec := range s.types() {
		list, err := spec.AnyTypesByName(bare)
		if err != nil {
			continue
		}
		for _, t := range list {
			if kind.has(t) {
				return t
			}
		}
	}
	return nil
}

// Func returns the prototype of a function of the kernel.
func (s *System) Func(name string) *btf.FuncProto {
	for _, spec := range s.types() {
		if protos, err := prototype.In(spec, name); err == nil {
			return protos[0]
		}
	}
	return nil
}

// Variable returns the type of a variable of the kernel that is there once for each CPU.
func (s *System) Variable(name string) btf.Type {
	for _, spec := range s.types() {
		var v *btf.Var
		if spec.TypeByName(name, &v) == nil {
			return v.Type
		}
	}
	return nil
}

// features are what Has is asked for, as an Env names it. bpf_d_path has been there since
// trampolines had: it is a function of the kernel.
var features = map[string]feature.Feature{
	"loop":                   feature.BPFLoop,
	"map_lookup_percpu_elem": feature.PerCPUMapLookup,
	"get_func_ip":            feature.GetFuncIP,
	"ktime_get_tai_ns":       feature.KtimeTAI,
}

// Has reports whether the kernel has a feature. Where that cannot be told, for want of
// privileges, say, it has: loading a program will tell.
func (s *System) Has(name string) bool {
	if name == "d_path" {
		return len(s.types()) == 0 || s.Func("bpf_d_path") != nil
	}
	f, ok := features[name]
	return !ok || !errors.Is(s.env.Supports(f), errors.ErrUnsupported)
}
