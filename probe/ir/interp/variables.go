package interp

import (
	"slices"

	"github.com/borescope/borescope/probe/ir"
)

// Variables whose addresses are taken are apart from each other in the kernel's half of the address
// space: in the kernel they are on a program's stack.
const (
	firstVariable = 0xffffc90000000000
	apart         = 1 << 16
)

// address returns the address of a variable.
func (r *run) address(v *ir.Var) uint64 {
	i := slices.Index(r.addressed, v)
	if i < 0 {
		i = len(r.addressed)
		r.addressed = append(r.addressed, v)
	}
	return firstVariable + uint64(i)*apart
}

// readVariable reads a part of a variable, if that is at an address.
func (r *run) readVariable(b []byte, addr uint64) bool {
	i, off := (addr-firstVariable)/apart, (addr-firstVariable)%apart
	if i >= uint64(len(r.addressed)) {
		return false
	}
	v := r.addressed[i]
	value := toBytes(ir.Uint64Type(), r.vars[v]) // numbers have eight bytes there, too
	if !v.Type.Scalar() {
		value = toBytes(v.Type, r.vars[v])
	}
	if off+uint64(len(b)) > uint64(len(value)) {
		return false
	}
	copy(b, value[off:])
	return true
}
