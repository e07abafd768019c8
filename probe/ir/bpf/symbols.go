package bpf

import (
	"errors"
	"fmt"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/symbol"
)

// resolveSymbols fills in plan.Symbols with the addresses that the program needs: of kernel
// symbols, from the environment's kallsyms (which takes tens of milliseconds to read), and of
// symbols of the files that user probes are in. Programs that need none cost nothing.
// Addresses that the plan already has stay as they are.
//
// Errors match fs.ErrNotExist for symbols that do not exist, and errors.ErrUnsupported if the
// kernel hides its addresses.
func resolveSymbols(env *probe.Env, p *ir.Program, plan *probe.Plan) error {
	if env == nil {
		env = probe.NewEnv(nil)
	}
	var missing []string
	for _, name := range kernelSymbols(p) {
		if _, ok := plan.Symbols[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		addrs, err := env.KernelAddresses(missing...)
		if err != nil {
			return fmt.Errorf("resolve symbols of %s: %w", p.Name, err)
		}
		var errs []error
		for _, name := range missing {
			addr, ok := addrs[name]
			if !ok {
				errs = append(errs, env.MissingSymbol(name))
				continue
			}
			setSymbol(plan, name, addr)
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("resolve symbols of %s: %w", p.Name, err)
		}
	}
	return userSymbols(p, plan)
}

func setSymbol(plan *probe.Plan, name string, addr uint64) {
	if plan.Symbols == nil {
		plan.Symbols = map[string]uint64{}
	}
	plan.Symbols[name] = addr
}

// userSymbols resolves the symbols of OpUaddr, for every site of their action.
func userSymbols(p *ir.Program, plan *probe.Plan) error {
	for i, a := range p.Actions {
		names := map[string]bool{}
		(&ir.Program{Actions: []ir.Action{a}}).Visit(func(*ir.Stmt) {}, func(e *ir.Expr) {
			if e.Op == ir.OpUaddr {
				names[e.Str] = true
			}
		})
		for name := range names {
			for _, pp := range plan.Programs {
				if pp.Group != i {
					continue
				}
				if err := siteSymbols(plan, pp.Sites, name); err != nil {
					return fmt.Errorf("resolve symbols of %s: %w", p.Name, err)
				}
			}
		}
	}
	return nil
}

// siteSymbols adds the distance of a symbol from each site's instruction. Both addresses are
// those of the file's segments, which move by the same distance when the file is mapped.
func siteSymbols(plan *probe.Plan, sites []probe.Site, name string) error {
	for _, s := range sites {
		if s.Path == "" {
			continue // not a user probe: the checker reports it
		}
		key := check.SiteSymbol(s, name)
		if _, ok := plan.Symbols[key]; ok {
			continue
		}
		d, err := symbolDistance(s.Path, s.Offset, name)
		if err != nil {
			return fmt.Errorf("symbol %s of %s: %w", name, s.Path, err)
		}
		setSymbol(plan, key, d)
	}
	return nil
}

// symbolDistance returns a symbol's address minus that of the byte at a file offset.
func symbolDistance(path string, offset uint64, name string) (uint64, error) {
	f, err := symbol.OpenELF(path, &symbol.ELFOptions{RawNames: true})
	if err != nil {
		return 0, err
	}
	defer f.Close()
	at, ok := f.VAddr(offset)
	if !ok {
		return 0, fmt.Errorf("offset %#x is in no segment", offset)
	}
	s, err := f.Lookup(name)
	return s.Addr - at, err
}

// kernelSymbols returns the kernel symbols whose addresses a program needs, in order of first
// use.
func kernelSymbols(p *ir.Program) []string {
	var out []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	p.Visit(func(*ir.Stmt) {}, func(e *ir.Expr) {
		switch e.Op {
		case ir.OpKaddr:
			add(e.Str)
		case ir.OpPerCPU:
			add(perCPUTable)
		}
	})
	return out
}

// perCPUTable is the kernel's table of the offsets of each CPU's variables.
const perCPUTable = "__per_cpu_offset"
