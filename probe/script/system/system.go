package system

import (
	"errors"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/prototype"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// Options are the options of [New]. The zero value and nil are the default.
type Options struct {
	// Modules are kernel modules. Their types are searched after the kernel's own.
	Modules []string
	// DWARF enables reading the arguments of user functions, and the types of user programs,
	// from the debug information of their files, which takes from milliseconds to seconds.
	// Without it user functions have no arguments, and only the kernel has types.
	DWARF bool
	// PID is a process: user probes without a file are in its executable. 0 is none.
	PID int
	// Unsafe keeps kprobes on functions that the kernel does not have, as far as it tells: that
	// is said when they are attached.
	Unsafe bool
	// Traceable drops kprobes, also those that are named in full, on functions that the Env's
	// Traceable does not have, for an Env that was given the list.
	Traceable bool
}

// System implements types.System with an Env. It holds no descriptor. It must be used by one
// goroutine at a time. What it has read for one script it uses for later scripts, too.
type System struct {
	env   *probe.Env
	o     Options
	specs []*btf.Spec // the kernel's types and those of modules, once all are read
	read  bool
	near  reach                 // the types that the script names
	names map[string]bool       // of scripts, that may be enumerators
	enums map[string]enumerator // by name; enum is nil if no enum has the name
	every bool                  // enum is in enums
	args  map[string]*btf.Struct
	// programs are the types of programs by target, by name, nil for those that they do not have.
	programs map[string]map[string]btf.Type
	// userNames are the names of types in the user probes of the script.
	userNames map[string]bool
	lists     map[string][]name // of events, by kind, sorted

	alone   int    // tracepoints that were looked for without listing all
	wanted  []name // tracepoints of a script whose formats were not read yet
	missing bool   // an event did not exist
	absent  int    // user files of a script that do not exist, or have none of its functions
	// files are the functions of a script in user files of which nothing was read yet.
	files map[string][]*syntax.AttachPoint
	err   error
}

var _ types.System = (*System)(nil)

// New returns a System for the machine of an Env; nil means this machine. It does not read
// anything yet.
func New(e *probe.Env, o *Options) *System {
	if e == nil {
		e = probe.NewEnv(nil)
	}
	s := &System{
		env: e, args: map[string]*btf.Struct{}, programs: map[string]map[string]btf.Type{}, names: map[string]bool{},
		enums: map[string]enumerator{}, lists: map[string][]name{},
		files: map[string][]*syntax.AttachPoint{},
	}
	if o != nil {
		s.o = *o
	}
	return s
}

// Err returns the error of reading the kernel's types or those of a module in the options. It
// is nil before the first use of a type, and if all could be read. Scripts have only the
// types that they declare if the kernel's could not be read.
func (s *System) Err() error { return s.err }

// types returns the types of the kernel and the modules. It reads them at its first call.
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

// Type returns a type by its name in C: "struct task_struct", "u32", "unsigned long". It is
// nil if there is none, or if the kernel's types cannot be read (Err).
func (s *System) Type(name string) btf.Type {
	if t := integer(name); t != nil {
		return t
	}
	kind, bare := split(name)
	return kind.first(s.named(bare, s.near.types))
}

// Func returns a kernel function, nil if there is none.
func (s *System) Func(name string) *btf.Func {
	for _, t := range s.named(name, s.near.funcs) {
		if f, ok := t.(*btf.Func); ok {
			return f
		}
	}
	return nil
}

// Variable returns the type of a kernel's per-CPU variable, nil if there is none.
func (s *System) Variable(name string) btf.Type {
	for _, t := range s.named(name, s.near.vars) {
		if v, ok := t.(*btf.Var); ok {
			return v.Type
		}
	}
	return nil
}

// pathHelper is the function that the types of a kernel with the feature d_path have.
const pathHelper = "bpf_d_path"

// features are the names of features that Has looks up in the Env. d_path is not one of them.
var features = map[string]feature.Feature{
	"loop":                   feature.BPFLoop,
	"map_lookup_percpu_elem": feature.PerCPUMapLookup,
	"get_func_ip":            feature.GetFuncIP,
	"ktime_get_tai_ns":       feature.KtimeTAI,
}

// Has reports whether the kernel has a feature. It returns true if that cannot be determined,
// for example without privileges: loading a program then returns the error.
func (s *System) Has(name string) bool {
	if name == "d_path" {
		return s.Func(pathHelper) != nil || len(s.types()) == 0
	}
	f, ok := features[name]
	return !ok || !errors.Is(s.env.Supports(f), errors.ErrUnsupported)
}
