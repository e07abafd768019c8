package probe

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/dwarf"
	"github.com/borescope/borescope/probe/internal/kernelcode"
	"github.com/borescope/borescope/probe/internal/usercode"
	"github.com/borescope/borescope/probe/internal/userfile"
	"github.com/borescope/borescope/symbol"
)

// userFunction is a function of a user program whose arguments DWARF describes.
type userFunction struct {
	sig    *usercode.Signature
	abi    callABI
	symbol userfile.Symbol
}

// piece is a part of a value, and where it is.
type piece struct {
	offset, size int
	loc          Location
}

// placed tells where a value is: in pieces, or why not.
type placed struct {
	pieces []piece
	why    string
	// unknown is set if why is also why the arguments behind it cannot be placed.
	unknown bool
}

// These are reasons why an argument cannot be read.
const (
	optimizedOut = "optimized out: it has no place at the function's first instruction; " +
		"probe a caller, or compile with less optimization"
	inFloatReg  = "in a floating point register"
	floatNumber = "a floating point number"
	seeFields   = "; see the fields"
	cloneRet    = "a clone made by the compiler may not return the value"
)

// args returns the arguments at the function's first instruction, and the members of those
// that are structures as fields.
//
// What DWARF says holds where it says it for that instruction. Otherwise an argument is where
// the calling convention puts it, but not if the compiler has changed the parameters.
func (f *userFunction) args() (args, fields []Arg) {
	convention := f.byConvention()
	changed := f.changed(convention)
	args = make([]Arg, 0, len(f.sig.Params))
	for i, p := range f.sig.Params {
		at, late := f.described(p, convention[i])
		switch {
		case late && changed != "":
			at = placed{why: changed}
		case late:
			at = convention[i]
		}
		a := Arg{Name: paramName(p.Name, i), Type: p.Type}
		a.Loc = f.whole(a, at, &fields)
		args = append(args, a)
	}
	return args, fields
}

// changed returns why the calling convention does not tell where the parameters are, "" if it
// does. A function that other files may call keeps to it.
func (f *userFunction) changed(convention []placed) string {
	const why = "the compiler has changed the parameters of this function, and DWARF has no place " +
		"for this one at the first instruction"
	switch {
	case kernelcode.IsClone(f.symbol.Name) || f.sig.Altered || f.sig.LLVM && f.omitted():
		return why
	case f.symbol.Global:
		return ""
	}
	for i, p := range f.sig.Params {
		if f.leftOut(p) || f.differs(p, convention[i]) {
			return why
		}
	}
	return ""
}

// omitted reports whether DWARF has fewer parameters than the function's C++ name. LLVM omits an
// object that is passed by address and not used.
func (f *userFunction) omitted() bool {
	if !strings.HasPrefix(f.symbol.Name, "_Z") {
		return false
	}
	names := symbol.NewDemangler(&symbol.DemangleOptions{Budget: nameBudget})
	want, ok := countParams(names.Demangle(f.symbol.Name))
	have := 0
	for _, p := range f.sig.Params {
		if !p.Artificial {
			have++
		}
	}
	return ok && want != have
}

// nameBudget bounds one demangled name: see symbol.DemangleOptions.
const nameBudget = 1 << 16

// countParams counts the parameters in a demangled name: "f<a, b>(c, d<e, f>)" has two. ok is
// false if the name has none, as Rust's.
func countParams(name string) (n int, ok bool) {
	name, _, _ = strings.Cut(name, " [")
	end := strings.LastIndexByte(name, ')')
	depth, begin := 0, end
	for ; begin >= 0; begin-- {
		if name[begin] == ')' {
			depth++
		} else if name[begin] == '(' {
			if depth--; depth == 0 {
				break
			}
		}
	}
	if begin < 0 {
		return 0, false
	}
	list := name[begin+1 : end]
	if list == "" || list == "void" {
		return 0, true
	}
	n = 1
	for i := range len(list) {
		switch c := list[i]; {
		case strings.IndexByte("(<[{", c) >= 0:
			depth++
		case strings.IndexByte(")>]}", c) >= 0:
			depth--
		case c == ',' && depth == 0:
			n++
		}
	}
	return n - strings.Count(list, "..."), true
}

// leftOut reports whether no argument is passed for a parameter: the compiler knows its value,
// or does not need it.
func (f *userFunction) leftOut(p usercode.Param) bool {
	if size, err := btf.Sizeof(p.Type); len(p.Place.Pieces) > 0 || err == nil && size == 0 {
		return false
	}
	switch p.Place.Kind {
	case dwarf.PlaceConst, dwarf.PlaceGone:
		return true
	case dwarf.PlaceElsewhere:
		// LLVM writes nothing for the first instructions about what is passed by address.
		return !isAggregate(p.Type)
	case dwarf.PlaceNone:
		return f.sig.Placed || f.sig.LLVM
	}
	return false
}

// differs reports whether a parameter is in another register than the convention says.
func (f *userFunction) differs(p usercode.Param, convention placed) bool {
	at := p.Place
	if len(at.Pieces) > 0 {
		at = at.Pieces[0].Place
	}
	if at.Kind != dwarf.PlaceRegister || len(convention.pieces) == 0 {
		return false
	}
	loc := convention.pieces[0].loc
	return slices.Contains(f.abi.args, int(at.Reg)) && (loc.Kind != LocationReg || loc.Reg != int(at.Reg))
}

// described returns where DWARF says that a parameter is. late is set if it does not say that,
// or only where it is after the function's first instructions: in a slot of the frame, or in a
// register that does not pass arguments. Compilers that do not optimize write that alone, and
// write it for the whole function.
func (f *userFunction) described(p usercode.Param, convention placed) (at placed, late bool) {
	size, _ := btf.Sizeof(p.Type)
	if len(p.Place.Pieces) > 0 {
		offset := 0
		for _, part := range p.Place.Pieces {
			loc, late := f.location(part.Place, 8*int(part.Size))
			if late {
				loc = Location{Reason: part.Place.String()}
			}
			at.pieces = append(at.pieces, piece{offset, int(part.Size), loc})
			offset += int(part.Size)
		}
		return at, false
	}
	switch p.Place.Kind {
	case dwarf.PlaceNone:
		return placed{why: optimizedOut}, !f.leftOut(p)
	case dwarf.PlaceGone, dwarf.PlaceElsewhere:
		return placed{why: optimizedOut}, false
	}
	bits := 8 * size
	if i, ok := btf.UnderlyingType(p.Type).(*btf.Int); ok && i.Encoding == btf.Bool {
		bits = 1 // the others of its byte are 0
	}
	loc, late := f.location(p.Place, bits)
	if p.Place.Whole && f.symbol.Global && f.differs(p, convention) {
		late = true // its register after the first instructions
	}
	return placed{pieces: []piece{{0, size, loc}}}, late
}

// location returns the location that a place of some bits is. late is as for described.
func (f *userFunction) location(p dwarf.Place, bits int) (loc Location, late bool) {
	reg := int(p.Reg)
	passes := slices.Contains(f.abi.args, reg)
	if p.Bits != 0 && bits > int(p.Bits) {
		return Location{Reason: "computed from a part of a register"}, false
	}
	switch p.Kind {
	case dwarf.PlaceRegister:
		if reg >= f.abi.floatRegs && reg < f.abi.floatRegs+32 {
			return Location{Reason: inFloatReg}, false
		}
		return Location{Kind: LocationReg, Reg: reg}, !passes
	case dwarf.PlaceSum:
		return Location{Kind: LocationSum, Reg: reg, Offset: p.Offset}, !passes
	case dwarf.PlaceConst:
		return Location{Kind: LocationConst, Offset: p.Offset}, false
	case dwarf.PlaceCFA:
		return Location{Kind: LocationStack, Offset: f.abi.stackArgs + p.Offset}, false
	case dwarf.PlaceFrame:
		return Location{}, true
	case dwarf.PlaceMemory:
		return Location{Reason: p.String()}, !passes
	}
	return Location{Reason: p.String()}, false
}

// whole returns the location of a value as a whole, and appends the members of a structure to
// the fields.
func (f *userFunction) whole(a Arg, at placed, fields *[]Arg) Location {
	size, err := btf.Sizeof(a.Type)
	switch {
	case at.why != "":
		return Location{Reason: at.why}
	case isVoid(a.Type):
		return Location{Reason: "its type is not known"}
	case err != nil:
		return Location{Reason: "its size is not known: " + err.Error()}
	}
	if !isAggregate(a.Type) && size <= 8 {
		loc := part(at.pieces, 0, size)
		if _, ok := btf.UnderlyingType(a.Type).(*btf.Float); ok && loc.Reason == "" {
			loc = Location{Reason: floatNumber} // on the stack, or a constant
		}
		return loc
	}
	m := memberPlacer{f: f, pieces: at.pieces, out: fields}
	before := len(*fields)
	m.add(a.Type, a.Name, 0, 0)
	loc := Location{Reason: byValue(isAggregate(a.Type), size)}
	if len(*fields) > before {
		loc.Reason += seeFields
	}
	return loc
}

// part returns the location of a part of a value.
func part(pieces []piece, offset, size int) Location {
	for _, p := range pieces {
		by := offset - p.offset
		if by < 0 || by+size > p.size {
			continue
		}
		loc := p.loc
		loc.Size, loc.User = size, loc.Reason == ""
		switch {
		case loc.Reason != "" || by == 0:
		case loc.Kind == LocationReg && by%size == 0 && by+size <= 8, loc.Kind == LocationStack:
			loc.Offset += int64(by)
		case loc.Kind == LocationConst && by < 8:
			loc.Offset >>= 8 * by
		default:
			return Location{Reason: "in a part of a computed value"}
		}
		return loc
	}
	return Location{Reason: "in several places, or in none"}
}

// memberPlacer lists the members of a structure that are in registers or on the stack.
type memberPlacer struct {
	f      *userFunction
	pieces []piece
	out    *[]Arg
}

// maxMembers bounds the fields of a program that are members of arguments.
const maxMembers = 256

func (m *memberPlacer) add(t btf.Type, name string, offset, depth int) {
	var members []btf.Member
	switch v := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		members = v.Members
	case *btf.Union:
		members = v.Members
	case *btf.Int, *btf.Enum, *btf.Pointer:
		size, err := btf.Sizeof(v)
		if err != nil || size == 0 || size > 8 || depth == 0 {
			return
		}
		if loc := part(m.pieces, offset, size); loc.Reason == "" && m.f.sig.Spend(name) {
			*m.out = append(*m.out, Arg{Name: name, Type: t, Loc: loc})
		}
		return
	}
	for _, member := range members {
		if member.BitfieldSize != 0 || !m.f.sig.Step(depth) || len(*m.out) >= maxMembers {
			continue
		}
		of := name
		if member.Name != "" {
			of += "." + member.Name
		}
		m.add(member.Type, of, offset+int(member.Offset.Bytes()), depth+1)
	}
}

// ret returns the value that the function returns, and the members of a structure as fields.
func (f *userFunction) ret() (*Arg, []Arg) {
	if isVoid(f.sig.Ret) {
		return nil, nil
	}
	a := Arg{Name: "retval", Type: f.sig.Ret}
	var fields []Arg
	a.Loc = f.whole(a, f.returned(), &fields)
	return &a, fields
}

// returned tells where the function's value is when it returns.
func (f *userFunction) returned() placed {
	if kernelcode.MayNotReturn(f.symbol.Name) {
		return placed{why: cloneRet}
	}
	if f.sig.LLVM && !f.symbol.Global && (f.sig.Altered || slices.ContainsFunc(f.sig.Params, f.leftOut)) {
		return placed{why: "the compiler has changed this function, which may not return the value"}
	}
	p := f.sig.Hidden()
	switch p.How {
	case usercode.PassedUnknown:
		return placed{why: "where the value is returned is not known: " + p.Why}
	case usercode.PassedInWords:
		regs := argRegs{abi: &f.abi, ints: f.abi.rets, floats: 4}
		if at, ok := regs.take(p); ok {
			return placed{pieces: at}
		}
	}
	if p.X87 {
		return placed{why: inFloatReg}
	}
	return placed{why: byValue(true, p.Size)}
}
