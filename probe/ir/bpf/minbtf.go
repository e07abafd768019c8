package bpf

import (
	"fmt"
	"sort"
	"strings"
	"unicode"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/builtin"
	"github.com/borescope/borescope/probe/ir/internal/check"
)

// BTFNeeds returns what a program uses of a kernel's types: the types, members and functions
// that its expressions and targets name, and some that they use without naming them.
func BTFNeeds(p *ir.Program) *env.BTFNeeds {
	types, funcs, members, enumerators := map[string]bool{}, map[string]bool{}, map[string]bool{},
		map[string]bool{}
	members["ent"] = true // of a tracepoint's record
	if walksStacks(p) {
		for _, path := range append([]string{check.TaskStack}, kernel.ReturnInstances...) {
			typ, member, _ := strings.Cut(path, ".")
			types[typ], members[member] = true, true
		}
	}
	p.Visit(func(s *ir.Stmt) {
		if s.Op == ir.StmtPacket {
			types["sk_buff"], members["len"] = true, true
		}
	}, func(e *ir.Expr) {
		if check.UsesTaskIDs(e) {
			for _, f := range check.TaskFields {
				types[f.Type], members[f.Name] = true, true
			}
		}
		if e.Op == ir.OpBuiltin {
			for _, m := range builtin.Named(e.Str).Kernel {
				types[m.Type], members[m.Name] = true, true
			}
		}
		if e.Op == ir.OpString || e.Op == ir.OpBuiltin {
			return
		}
		for _, word := range identifiers(e.Str) {
			types[word] = true
			if e.Op == ir.OpEnum {
				enumerators[word] = true
			}
			for _, prefix := range []string{"", "__data_loc_", "__rel_loc_"} {
				members[prefix+word] = true
			}
		}
	})
	for _, t := range p.Targets() {
		for _, word := range identifiers(t.String()) {
			for _, prefix := range []string{"", "__bpf_trace_", "bpf_iter_", "bpf_lsm_"} {
				funcs[prefix+word] = true
			}
			for _, prefix := range []string{"btf_trace_", "trace_event_raw_", "bpf_iter__"} {
				types[prefix+word] = true
			}
		}
	}
	return &env.BTFNeeds{
		Types: sorted(types), Funcs: sorted(funcs), Members: sorted(members),
		Enumerators: sorted(enumerators),
	}
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for s := range set {
		out = append(out, s)
	}
	sort.Strings(out)
	return out
}

// identifiers returns the words of a path, a type's name or a target.
func identifiers(s string) []string {
	var out []string
	start := -1
	for i, r := range s + " " {
		word := r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
		switch {
		case word && start < 0:
			start = i
		case !word && start >= 0:
			out = append(out, s[start:i])
			start = -1
		}
	}
	return out
}

// CaptureBTF extracts the part of the kernel's BTF that a program needs, to embed it for
// kernels of this release that have no BTF. It returns a few kilobytes, and their path in a
// tree of BTFHub's layout (probe.EnvOptions.BTFDir). A program compiled with it is the same
// as one compiled with all of the BTF.
func CaptureBTF(p *ir.Program, env *probe.Env) (raw []byte, path string, err error) {
	if err := p.Err(); err != nil {
		return nil, "", fmt.Errorf("capture BTF for %s: %w", p.Name, err)
	}
	raw, path, err = env.CaptureBTF(BTFNeeds(p))
	if err != nil {
		return nil, "", fmt.Errorf("capture BTF for %s: %w", p.Name, err)
	}
	return raw, path, nil
}

// kernelTypes returns the types for a plan that has none yet, and the compiled program if it was
// compiled with them. Those that the program names are enough. If they are not, the program has a
// mistake whose error lists near names, so all types are read.
func kernelTypes(env *probe.Env, p *ir.Program, plan *probe.Plan) (
	*btf.Spec, *ebpf.CollectionSpec, error,
) {
	if types, err := env.MinimalBTF(BTFNeeds(p)); err == nil {
		trial := *plan
		trial.BTF = types
		if spec, err := Compile(p, &trial); err == nil {
			return types, spec, nil
		}
	}
	types, err := env.BTF()
	return types, nil, err
}
