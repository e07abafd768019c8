package probe

import (
	"bytes"
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/dwarf"
	"github.com/borescope/borescope/internal/elffile"
)

// signature is a user function's type, from DWARF.
type signature struct {
	params []btf.FuncParam
	// ret is nil for a function that returns nothing, and for one of Go that
	// returns several values.
	ret     btf.Type
	results []btf.FuncParam // Go's, in order
	steps   *int            // how many more parts of values may be looked at, of all of a file's functions
}

// userDWARF reads a file's DWARF, which lives no longer than the file. What is decoded, and
// made of it, has a bound: a stranger may have written it. Of libc, whose debug file is
// compressed to 4 MB, all functions with their types take 32 MB.
func userDWARF(f *elffile.File) (*dwarf.Data, error) {
	return dwarf.New(f, nil, max(40<<20, 5*f.Stored()))
}

// typeUser gives a user probe's program the arguments and the return value that
// DWARF tells of, where the caller asked for that and the file has it.
func (r *resolver) typeUser(p *Program, f *elffile.File, s elfSymbol, goProgram bool) {
	if !r.o.DWARF || f.DebugSection("info") == nil {
		return
	}
	if r.code.types == nil {
		r.code.types = newUserTypes(f)
	}
	sig, err := r.code.types.signatureAt(s.value)
	if err != nil {
		return // the registers remain
	}
	arch := archOf(f.Machine)
	if goProgram {
		goArgs(p, sig, goABIs[arch])
		return
	}
	abi := abis[arch]
	if p.Returns {
		p.Ret = abi.userRet(sig)
		return
	}
	p.Args = abi.userArgs(sig)
}

// userArgs places the arguments of a C function at its entry.
func (abi *callABI) userArgs(sig *signature) []Arg {
	args := make([]Arg, 0, len(sig.params))
	reg, stack := 0, abi.stackArgs
	for i, p := range sig.params {
		a := Arg{Name: paramName(p.Name, i), Type: p.Type}
		switch n := sig.floatWords(p.Type); {
		case n > 0 && !isAggregate(p.Type):
			a.Loc = Location{Reason: "in a floating point register"}
		case n > 0:
			// A structure of floats takes no integer register for those words.
			size, _ := btf.Sizeof(p.Type)
			if size <= 16 {
				reg += (size+7)/8 - n
			}
			a.Loc = Location{Reason: "struct by value"}
		default:
			a.Loc = abi.place(p.Type, &reg, &stack)
		}
		a.Loc.User = a.Loc.Reason == ""
		args = append(args, a)
	}
	return args
}

func (abi *callABI) userRet(sig *signature) *Arg {
	if isVoid(sig.ret) {
		return nil
	}
	ret := abi.retArg(sig.ret)
	if sig.floatWords(sig.ret) > 0 && ret.Loc.Reason == "" {
		ret.Loc = Location{Reason: "in a floating point register"}
	}
	ret.Loc.User = ret.Loc.Reason == ""
	return ret
}

// floatWords counts the eight-byte words of a value that hold floating point
// numbers only, and so are passed in registers that probes do not see.
func (sig *signature) floatWords(t btf.Type) int {
	var kinds [2]byte // of each word: 1 float, 2 anything else
	if !sig.classify(t, 0, 0, &kinds) {
		return 0
	}
	return bytes.Count(kinds[:], []byte{1})
}

// step reports whether a part of a value may be looked at: types that have nothing but
// types that have nothing would take forever.
func (sig *signature) step(depth int) bool {
	*sig.steps--
	return depth <= 16 && *sig.steps >= 0
}

// classify marks the words that a value covers; it is false for values of more
// than two words.
func (sig *signature) classify(t btf.Type, offset uint32, depth int, kinds *[2]byte) bool {
	if !sig.step(depth) {
		return false
	}
	members := func(list []btf.Member) bool {
		return !slices.ContainsFunc(list, func(m btf.Member) bool {
			return !sig.classify(m.Type, offset+m.Offset.Bytes(), depth+1, kinds)
		})
	}
	u := btf.UnderlyingType(t)
	switch v := u.(type) {
	case *btf.Struct:
		return members(v.Members)
	case *btf.Union:
		return members(v.Members)
	case *btf.Array:
		size, err := btf.Sizeof(v.Type)
		if err != nil || v.Nelems > 16 {
			return false
		}
		for i := range v.Nelems {
			if !sig.classify(v.Type, offset+i*uint32(size), depth+1, kinds) {
				return false
			}
		}
		return true
	}
	if offset/8 >= 2 {
		return false
	}
	kind := byte(2)
	if _, ok := u.(*btf.Float); ok {
		kind = 1
	}
	if kinds[offset/8] != 2 {
		kinds[offset/8] = kind
	}
	return true
}

// goArgs places a Go function's arguments, or results, by ABIInternal
// (cmd/compile/abi-internal.md, "Function call argument and result passing").
// A value in several registers has its parts as Fields: "s.str", "s.len".
func goArgs(p *Program, sig *signature, abi callABI) {
	list := sig.params
	if p.Returns {
		list = sig.results
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
	sig    *signature
	abi    callABI
	next   int
	floats int
}

// goFloatRegs is the number of floating point registers: X0–X14, F0–F15.
const goFloatRegs = 15

func (a *goAssigner) assign(t btf.Type, name string, out *[]Arg, depth int) bool {
	if !a.sig.step(depth) {
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
		*out = append(*out, Arg{Name: name, Type: t, Loc: Location{Reason: "in a floating point register"}})
		return true
	}
	size, err := btf.Sizeof(t)
	if err != nil || size > 8 || a.next >= len(a.abi.args) {
		return false
	}
	*out = append(*out, Arg{Name: name, Type: t, Loc: Location{Kind: LocationReg, Reg: a.abi.args[a.next], Size: size, User: true}})
	a.next++
	return true
}
