package probe

import (
	"fmt"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
)

// callABI says where an architecture's calling convention puts integer arguments
// and the return value, in DWARF register numbers.
type callABI struct {
	args []int
	ret  int
	rets []int // of a value of up to two words
	// floatRegs is the DWARF number of the first of 32 registers for floating point numbers.
	floatRegs int
	// stackArgs is the offset of the first argument in memory from the stack
	// pointer at a function's entry: amd64 has the return address below it.
	stackArgs int64
	// byReference is set where aggregates larger than two words are passed by
	// pointer instead of in memory.
	byReference bool
}

// abis are the System V AMD64 psABI (3.2.3) and AAPCS64 (6.8.2), which the
// kernels follow for their own functions too.
var abis = map[string]callABI{
	"amd64": {args: []int{5, 4, 1, 2, 8, 9}, ret: 0, rets: []int{0, 1}, floatRegs: 17, stackArgs: 8},
	"arm64": {args: []int{0, 1, 2, 3, 4, 5, 6, 7}, ret: 0, rets: []int{0, 1}, floatRegs: 64, byReference: true},
}

func abiOf(arch string) (callABI, error) {
	abi, ok := abis[arch]
	if !ok {
		return abi, &feature.UnsupportedError{
			Feature: "arguments on " + arch,
			Hint:    "the calling conventions known are those of amd64 and arm64",
		}
	}
	return abi, nil
}

// untypedArgs returns the argument registers by number, where no prototype is known.
func (abi *callABI) untypedArgs(user bool) []Arg {
	args := make([]Arg, len(abi.args))
	for i, reg := range abi.args {
		args[i] = Arg{
			Name: fmt.Sprintf("arg%d", i),
			Loc:  Location{Kind: LocationReg, Reg: reg, Size: 8, User: user},
		}
	}
	return args
}

func (abi *callABI) untypedRet(user bool) *Arg {
	return &Arg{Name: "retval", Loc: Location{Kind: LocationReg, Reg: abi.ret, Size: 8, User: user}}
}

// protoArgs returns a function's arguments at its entry.
func (abi *callABI) protoArgs(proto *btf.FuncProto) []Arg {
	args := make([]Arg, 0, len(proto.Params))
	reg, stack := 0, abi.stackArgs
	for i, p := range proto.Params {
		if _, ok := p.Type.(*btf.Void); ok && i == len(proto.Params)-1 && p.Name == "" {
			break // "...": what follows has no prototype
		}
		a := Arg{Name: paramName(p.Name, i), Type: p.Type}
		a.Loc = abi.place(p.Type, &reg, &stack)
		args = append(args, a)
	}
	return args
}

func paramName(name string, i int) string {
	if name == "" {
		return fmt.Sprintf("arg%d", i)
	}
	return name
}

// place takes the next registers or stack words for a value of the type.
func (abi *callABI) place(t btf.Type, reg *int, stack *int64) Location {
	size, err := btf.Sizeof(t)
	if err != nil {
		return Location{Reason: "its size is not known: " + err.Error()}
	}
	words := (size + 7) / 8
	aggregate := isAggregate(t)
	switch {
	case aggregate && size > 16 && abi.byReference:
		*reg++
		return Location{Reason: "struct by value"}
	case aggregate && size > 16 || *reg+words > len(abi.args):
		loc := Location{Kind: LocationStack, Offset: *stack, Size: size}
		*stack += int64(words) * 8
		if abi.byReference {
			*reg = len(abi.args) // AAPCS64 C.13: no later argument goes back to registers
		}
		if aggregate || size > 8 {
			loc = Location{Reason: byValue(aggregate, size)}
		}
		return loc
	}
	loc := Location{Kind: LocationReg, Reg: 0, Size: size}
	if words > 0 {
		loc.Reg = abi.args[*reg]
	}
	*reg += words
	if aggregate || size > 8 {
		return Location{Reason: byValue(aggregate, size)}
	}
	return loc
}

func byValue(aggregate bool, size int) string {
	if aggregate {
		return "struct by value"
	}
	return fmt.Sprintf("%d bytes by value", size)
}

// retArg returns where the return value is, nil for void.
func (abi *callABI) retArg(t btf.Type) *Arg {
	if isVoid(t) {
		return nil
	}
	a := abi.untypedRet(false)
	a.Type = t
	size, err := btf.Sizeof(t)
	switch {
	case err != nil:
		a.Loc = Location{Reason: "its size is not known: " + err.Error()}
	case isAggregate(t) || size > 8:
		a.Loc = Location{Reason: byValue(isAggregate(t), size)}
	default:
		a.Loc.Size = size
	}
	return a
}

// trampArgs returns the arguments of a trampoline: one u64 for each, two for an
// aggregate of up to 16 bytes (Linux 6.0, commit 720e6a435194). It also returns the
// number of slots; the return value follows them.
func trampArgs(params []btf.FuncParam) (args []Arg, slots int) {
	for i, p := range params {
		a := Arg{Name: paramName(p.Name, i), Type: p.Type}
		size, err := btf.Sizeof(p.Type)
		switch {
		case err != nil:
			a.Loc = Location{Reason: "its size is not known: " + err.Error()}
			slots++
		default:
			a.Loc = Location{Kind: LocationContext, Offset: int64(slots) * 8, Size: size}
			if size > 8 {
				a.Loc = Location{Reason: byValue(isAggregate(p.Type), size)}
			}
			slots += max(1, (size+7)/8)
		}
		args = append(args, a)
	}
	return args, slots
}

func isAggregate(t btf.Type) bool {
	switch btf.UnderlyingType(t).(type) {
	case *btf.Struct, *btf.Union, *btf.Array:
		return true
	}
	return false
}

func isVoid(t btf.Type) bool {
	if t == nil {
		return true
	}
	_, ok := btf.UnderlyingType(t).(*btf.Void)
	return ok
}
