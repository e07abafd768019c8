package spec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script/output"
	"github.com/borescope/borescope/probe/script/types"
)

// Value is what is known of a value before it has been computed. It is plain data.
type Value struct {
	// Text is how the user wrote it.
	Text string `json:"text"`
	// Kind is "text", "integer", "bool" or "pointer".
	Kind   string `json:"kind"`
	Signed bool   `json:"signed,omitempty"`
	// Most is the most bytes of a text.
	Most uint64 `json:"most,omitempty"`
	// Enum has the names of an enumeration's numbers.
	Enum map[uint64]string `json:"enum,omitempty"`
	// Mode is the function that names numbers, such as strerror; "" if none does.
	Mode string `json:"mode,omitempty"`
	// Arch is the machine whose names they are, as GOARCH names it.
	Arch string `json:"arch,omitempty"`
}

// kinds are the kinds of types that values may have.
var kinds = map[types.Kind]string{
	types.String: "text", types.Integer: "integer", types.Bool: "bool", types.Pointer: "pointer",
}

// newValue returns a value of a type. The error follows the value's text.
func newValue(t types.Type, verb, arch string) (v Value, err error) {
	v = Value{Kind: kinds[t.Kind], Signed: t.Signed}
	switch {
	case v.Kind == "" || t.Mode == "comm":
		return v, fmt.Errorf(" is a value of type %v: values are numbers and texts; bt prints others", t)
	case v.IsText():
		v.Most = t.Size
	case t.Mode != "":
		v.Mode, v.Arch = t.Mode, arch
	case t.BTF != nil:
		v.Enum = enumerators(t.BTF)
	}
	if verb == "s" && (v.Kind == "integer" && v.Mode == "" && v.Enum == nil || v.Kind == "pointer") {
		return v, errors.New(" is a number, and %s is for texts: str() reads the text at an address")
	}
	return v, nil
}

// enumerators returns the names of an enumeration's numbers, nil for other types.
func enumerators(t btf.Type) map[uint64]string {
	e, ok := btf.UnderlyingType(t).(*btf.Enum)
	if !ok {
		return nil
	}
	names := map[uint64]string{}
	for _, v := range e.Values {
		names[v.Value] = v.Name
	}
	return names
}

// like reports whether another value is printed as v is.
func (v Value) like(w Value) bool {
	return v.Kind == w.Kind && v.Signed == w.Signed && v.Mode == w.Mode && maps.Equal(v.Enum, w.Enum)
}

// IsText reports whether the value is a text. Others are numbers.
func (v Value) IsText() bool { return v.Kind == "text" }

// Number returns a number as package output prints it: an int64, uint64, bool or output.Symbol.
func (v Value) Number(n uint64) any {
	if name, ok := v.Enum[n]; ok {
		return output.Symbol{Text: name, Number: n}
	}
	t := types.Type{Kind: types.Integer, Size: 8, Signed: v.Signed, Mode: v.Mode}
	switch v.Kind {
	case "bool":
		t.Kind = types.Bool
	case "pointer":
		t = types.Type{Kind: types.Pointer, Size: 8, Elem: &types.Type{}}
	}
	raw := binary.LittleEndian.AppendUint64(nil, n)
	return output.Decode(t, bpf.Value{Type: ir.IntType(8, v.Signed), Raw: string(raw)}, &output.Options{Arch: v.Arch})
}

// String returns a text as package output prints it: with ".." at the end if it may have been cut.
func (v Value) String(b []byte) string {
	s := action.Text(b)
	if uint64(len(s)) == v.Most {
		return s + ".."
	}
	return s
}

// Message formats values of the probe by its format, as printf() does.
func (p *Probe) Message(values []any) string { return p.printer.Format(p.Format, values) }
