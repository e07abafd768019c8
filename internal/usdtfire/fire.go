// Package usdtfire contains the common parts of usdt/provider, usdt/static and usdtlink: the
// types of arguments, their specification, the conversion of Go values to the registers in it,
// and the mapping of files with probes.
package usdtfire

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/borescope/borescope/usdt/arg"
)

// MaxArgs is usdt.MaxArgs, which this package cannot import.
const MaxArgs = 12

// typeInfo is a type as the note contains it.
type typeInfo struct {
	size   uint8
	signed bool
}

var types = [...]typeInfo{
	arg.Int8:    {1, true},
	arg.Int16:   {2, true},
	arg.Int32:   {4, true},
	arg.Int64:   {8, true},
	arg.Uint8:   {1, false},
	arg.Uint16:  {2, false},
	arg.Uint32:  {4, false},
	arg.Uint64:  {8, false},
	arg.Pointer: {8, false},
	arg.String:  {8, false},
	arg.CString: {8, false},
}

// mismatch is an arg.ErrMismatch for one argument, or for their number.
type mismatch struct {
	probe string // "PROVIDER:NAME"
	arg   int
	msg   string
}

func (e *mismatch) Error() string {
	return fmt.Sprintf("fire %s: argument %d: %s", e.probe, e.arg, e.msg)
}

func (e *mismatch) Unwrap() error { return arg.ErrMismatch }

// Probe contains what Fire needs of a probe.
type Probe struct {
	Name  string // "PROVIDER:NAME"
	Types []arg.Type
}

// Check returns an error for invalid argument types.
func Check(list []arg.Type) error {
	slots := 0
	for _, t := range list {
		if int(t) >= len(types) {
			return fmt.Errorf("unknown argument type %d", t)
		}
		if slots++; t == arg.String {
			slots++
		}
	}
	if slots > MaxArgs {
		return fmt.Errorf("%d arguments are more than %d (a String is two)", slots, MaxArgs)
	}
	return nil
}

// frame contains what the assembly loads into registers: the i-th argument is values[i] |
// pointers[i]. Pointers are kept as pointers until they are loaded, because the garbage
// collector must see them, and because they may point to a stack that moves.
type frame struct {
	values   [MaxArgs]uint64
	pointers [MaxArgs]unsafe.Pointer
}

// Fire converts the arguments to register values and calls the stub.
func (p *Probe) Fire(stub uintptr, args []any) error {
	if len(args) != len(p.Types) {
		return p.argumentError(len(args), fmt.Sprintf("the probe has %d arguments", len(p.Types)))
	}
	// The common case, only integers, needs no frame with pointers. Code after the kernel's
	// trap runs with cold caches, so a few nanoseconds here become many there.
	var values [MaxArgs]uint64
	for i, t := range p.Types {
		v, ok := args[i].(int)
		u := uint64(v)
		if !ok {
			u, ok = integer(args[i])
		}
		if !ok || t >= arg.Pointer {
			return p.fireAny(stub, args)
		}
		values[i] = u
	}
	callValues(stub, &values)
	return nil
}

// fireAny is Fire for arguments of any type. The frame must be a variable of this function: if
// it were accessed through a pointer, the arguments would escape to the heap.
func (p *Probe) fireAny(stub uintptr, args []any) error {
	var f frame
	slot := 0
	for i, t := range p.Types {
		switch t {
		case arg.String:
			b, n, ok := text(args[i])
			if !ok {
				return p.argumentError(i, "want a string")
			}
			f.pointers[slot] = b
			slot++
			f.values[slot] = uint64(n)
		case arg.CString:
			b, n, ok := text(args[i])
			if !ok {
				return p.argumentError(i, "want a string")
			}
			c := make([]byte, n+1)
			copy(c, unsafe.Slice((*byte)(b), n))
			f.pointers[slot] = unsafe.Pointer(&c[0])
		case arg.Pointer:
			if v, ok := pointer(args[i]); ok {
				f.pointers[slot] = v
				break
			}
			fallthrough
		default:
			v, ok := integer(args[i])
			if !ok {
				return p.argumentError(i, "want an integer")
			}
			f.values[slot] = v
		}
		slot++
	}
	call(stub, &f)
	return nil
}

func (p *Probe) argumentError(i int, msg string) error {
	return &mismatch{probe: p.Name, arg: i, msg: msg}
}

// text returns the bytes of a string or byte slice.
func text(v any) (unsafe.Pointer, int, bool) {
	switch v := v.(type) {
	case string:
		return unsafe.Pointer(unsafe.StringData(v)), len(v), true
	case []byte:
		return unsafe.Pointer(unsafe.SliceData(v)), len(v), true
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.String {
		s := r.String()
		return unsafe.Pointer(unsafe.StringData(s)), len(s), true
	}
	return nil, 0, false
}

// integer returns an integer's bits.
func integer(v any) (uint64, bool) {
	switch v := v.(type) {
	case int:
		return uint64(v), true
	case int64:
		return uint64(v), true
	case uint64:
		return v, true
	case int32:
		return uint64(v), true
	case uint32:
		return uint64(v), true
	case uintptr:
		return uint64(v), true
	}
	r := reflect.ValueOf(v)
	switch {
	case r.CanInt():
		return uint64(r.Int()), true
	case r.CanUint():
		return r.Uint(), true
	case r.Kind() == reflect.Bool:
		if r.Bool() {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// pointer returns a pointer of any type.
func pointer(v any) (unsafe.Pointer, bool) {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.UnsafePointer:
		return r.UnsafePointer(), true
	}
	return nil, false
}
