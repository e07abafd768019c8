package probe

import (
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/probe/internal/usercode"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// typeUser gives a user probe's program the arguments and the return value that DWARF
// describes, if the caller asked for that and the file has it.
func (r *resolver) typeUser(p *ProgramPlan, f *elffile.File, s userfile.Symbol, goProgram bool) {
	if !r.o.DWARF || !r.code.debugInfo().Some() {
		return
	}
	if r.code.types == nil {
		r.code.types = usercode.NewTypes(r.code.debugInfo())
	}
	sig, err := r.code.types.SignatureAt(s.Value)
	if err != nil {
		return // the registers remain
	}
	arch := usercode.Arch(f.Machine)
	if goProgram {
		goArgs(p, sig, goABIs[arch])
		return
	}
	abi, ok := abis[arch]
	if !ok {
		return // its calling convention is not known
	}
	u := userFunction{sig: sig, abi: abi, symbol: s}
	if p.Returns {
		p.Ret, p.Fields = u.ret()
		return
	}
	p.Args, p.Fields = u.args()
}

// goArgs places a Go function's arguments, or results, by ABIInternal
// (cmd/compile/abi-internal.md, "Function call argument and result passing").
// A value in several registers has its parts as Fields: "s.str", "s.len".
func goArgs(p *ProgramPlan, sig *usercode.Signature, abi callABI) {
	list := sig.Params
	if p.Returns {
		list = sig.Results
	}
	var args, parts, pieces []Arg
	a := goAssigner{sig: sig, abi: abi}
	for i, param := range list {
		arg := Arg{Name: paramName(param.Name, i), Type: param.Type}
		start := a.next
		floats := a.floats
		pieces = pieces[:0]
		if !a.assign(param.Type, arg.Name, &pieces, 0) {
			a.next, a.floats = start, floats
			arg.Loc = Location{Reason: "on the stack"}
		} else if len(pieces) == 1 {
			arg.Loc = pieces[0].Loc
		} else {
			arg.Loc = Location{Reason: "in several registers; see the fields"}
			parts = append(parts, pieces...)
		}
		args = append(args, arg)
	}
	p.Fields = parts
	if !p.Returns {
		p.Args = args
		return
	}
	switch len(args) {
	case 0:
		p.Ret = nil
	case 1:
		p.Ret = &args[0]
		p.Ret.Name = "retval"
	default:
		p.Ret = &Arg{Name: "retval", Type: args[0].Type, Loc: args[0].Loc}
		p.Fields = append(args, parts...)
	}
}

// goAssigner hands out registers.
type goAssigner struct {
	sig    *usercode.Signature
	abi    callABI
	next   int
	floats int
}

// goFloatRegs is the number of floating point registers: X0–X14, F0–F15.
const goFloatRegs = 15

func (a *goAssigner) assign(t btf.Type, name string, out *[]Arg, depth int) bool {
	if !a.sig.Step(depth) {
		return false
	}
	switch v := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		for _, m := range v.Members {
			if !a.assign(m.Type, name+"."+m.Name, out, depth+1) {
				return false
			}
		}
		return true
	case *btf.Array:
		if v.Nelems == 0 {
			return true
		}
		return v.Nelems == 1 && a.assign(v.Type, name+"[0]", out, depth+1)
	case *btf.Float:
		if a.floats++; a.floats > goFloatRegs {
			return false
		}
		*out = append(*out, Arg{
			Name: name, Type: t,
			Loc: Location{Reason: "in a floating point register"},
		})
		return true
	}
	size, err := btf.Sizeof(t)
	if err != nil || size > 8 || a.next >= len(a.abi.args) {
		return false
	}
	*out = append(*out, Arg{
		Name: name, Type: t,
		Loc: Location{Kind: LocationReg, Reg: a.abi.args[a.next], Size: size, User: true},
	})
	a.next++
	return true
}
