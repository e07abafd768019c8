package usercode

import (
	"debug/elf"
	"errors"
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/dwarf"
)

// Signature is a user function's type, from DWARF, and where its parameters are when it is
// entered.
type Signature struct {
	Params []Param // in the order of the source
	// Ret is nil for a function that returns nothing, and for a Go function that returns
	// several values.
	Ret     btf.Type
	Results []Param // of Go functions, in order
	// Altered is set if DWARF says that the compiled function has other parameters than the
	// source: some are left out, or it is not called by the ABI.
	Altered bool
	// Placed is set if DWARF says of any parameter where it is.
	Placed bool
	// LLVM is set if the function was compiled by LLVM, which does not mark what it has left
	// out of a function.
	LLVM bool

	language uint16
	amd64    bool
	types    *Types
}

// Param is a parameter of a function.
type Param struct {
	Name  string
	Type  btf.Type
	Place dwarf.Place // at the function's first instruction
	// Artificial is set for what the source does not name: this.
	Artificial bool
}

// Step reports whether another part of a value may be examined. Without a bound, types nested
// in types without any data would take exponential time.
func (sig *Signature) Step(depth int) bool {
	sig.types.steps--
	return depth <= 16 && sig.types.steps >= 0
}

// Spend reports whether another argument of that name may be made.
func (sig *Signature) Spend(name string) bool {
	return sig.types.d.Spend(argCost+len(name)) == nil
}

func (c *Types) signature(fn *dwarf.Entry, pc uint64) (*Signature, error) {
	how, _ := fn.Int(dwarf.Convention)
	sig := &Signature{
		types: c, language: fn.Language(), LLVM: fn.LLVM(), amd64: c.machine == elf.EM_X86_64,
		Altered: how == dwarf.CallNotByABI,
	}
	owner := fn.Owner(dwarf.Type)
	if r, ok := owner.Link(dwarf.Type); ok {
		t, err := c.at(r)
		if err != nil {
			return nil, err
		}
		sig.Ret = t
	}
	r := paramReader{c: c, sig: sig, fn: fn, pc: pc}
	if err := r.read(); err != nil {
		return nil, err
	}
	return sig, nil
}

// paramReader reads the parameters of a function.
type paramReader struct {
	c       *Types
	sig     *Signature
	fn      *dwarf.Entry
	pc      uint64
	origins []dwarf.Ref // for each of sig.Params, the one of the abstract instance that it is
}

// read reads the parameters, in the order of the abstract instance if there is one: compilers
// write those first that they have kept.
func (r *paramReader) read() error {
	if err := r.each(r.fn, r.compiled); err != nil {
		return err
	}
	params := r.sig.Params
	r.sig.Placed = slices.ContainsFunc(params, func(p Param) bool { return p.Place.Known() })
	to, ok := r.fn.Link(dwarf.Origin)
	if !ok || r.sig.language == langGo {
		return nil // Go keeps the order, and has no blank parameters in the abstract instance
	}
	var abstract dwarf.Entry
	if err := abstract.Read(to); err != nil {
		return err
	}
	used := make([]bool, len(params))
	var ordered []Param
	err := r.each(&abstract, func(e *dwarf.Entry) error {
		if i := slices.Index(r.origins, e.Ref()); i >= 0 && !used[i] {
			used[i] = true
			ordered = append(ordered, params[i])
			return nil
		}
		if e.Flag(dwarf.Artificial) || isResult(e) {
			return nil // such as __in_chrg of constructors, which only one form has
		}
		p, err := r.param(e)
		p.Place = dwarf.Place{Kind: dwarf.PlaceGone}
		ordered, r.sig.Altered = append(ordered, p), true
		return err
	})
	for i := range params {
		if !used[i] {
			ordered = append(ordered, params[i])
		}
	}
	r.sig.Params = ordered
	return err
}

// each calls f for the parameters of a function, also for those of a parameter pack.
func (r *paramReader) each(fn *dwarf.Entry, f func(*dwarf.Entry) error) error {
	var e dwarf.Entry
	for in := fn.Inside(); ; {
		ok, err := in.Next(&e, dwarf.TagFormalParameter, dwarf.TagParameterPack)
		if err != nil || !ok {
			return err
		}
		if e.Tag == dwarf.TagFormalParameter {
			if err := f(&e); err != nil {
				return err
			}
			continue
		}
		pack := e.Inside()
		for {
			ok, err := pack.Next(&e, dwarf.TagFormalParameter)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if err := f(&e); err != nil {
				return err
			}
		}
	}
}

// compiled adds a parameter of the compiled function.
func (r *paramReader) compiled(e *dwarf.Entry) error {
	p, err := r.param(e)
	if err != nil {
		return err
	}
	if isResult(e) {
		r.sig.Results = append(r.sig.Results, p)
		return nil
	}
	p.Place = e.PlaceAt(r.pc, r.fn)
	of, _ := e.Link(dwarf.Origin)
	r.sig.Params, r.origins = append(r.sig.Params, p), append(r.origins, of)
	return nil
}

// isResult reports whether a parameter is a result of a Go function, which Go marks, in the
// abstract instance if there is one.
func isResult(e *dwarf.Entry) bool {
	owner := e.Owner(dwarf.VariableParameter)
	return owner.Flag(dwarf.VariableParameter)
}

// param reads a parameter's name and type.
func (r *paramReader) param(e *dwarf.Entry) (p Param, err error) {
	name, typ := e.Owner(dwarf.Name), e.Owner(dwarf.Type)
	to, ok := typ.Link(dwarf.Type)
	if !ok {
		return p, errors.New("a parameter has no type")
	}
	if p.Type, err = r.c.at(to); err != nil {
		return p, err
	}
	p.Name, p.Artificial = name.Text(dwarf.Name), e.Flag(dwarf.Artificial) || name.Flag(dwarf.Artificial)
	return p, r.c.d.Spend(argCost + len(p.Name))
}

// memberPointer returns a type like that of a pointer to a member: an offset, or for a function
// its address and what is added to this (Itanium C++ ABI 2.3).
func (c *Types) memberPointer(e *dwarf.Entry) (btf.Type, error) {
	offset := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	if r, ok := e.Link(dwarf.Type); ok {
		var to dwarf.Entry
		if err := to.Read(r); err != nil {
			return nil, err
		}
		if to.Tag == dwarf.TagSubroutineType {
			t := &btf.Struct{Name: "", Size: 16, Members: []btf.Member{
				{Name: "ptr", Type: offset}, {Name: "adj", Type: offset, Offset: 64},
			}}
			return t, c.mark(t, oddity{passed: byContents})
		}
	}
	return offset, nil
}

// unspecified returns a type without a description: std::nullptr_t is a pointer.
func unspecified(name string) btf.Type {
	if name == "decltype(nullptr)" || name == "nullptr_t" {
		return &btf.Pointer{Target: &btf.Void{}}
	}
	return &btf.Void{}
}
