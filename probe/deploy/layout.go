package deploy

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/ctype"
)

// mapLayout is what two versions of a program must agree on to share a map.
type mapLayout struct {
	Type       string `json:"type"`
	KeySize    uint32 `json:"key_size"`
	ValueSize  uint32 `json:"value_size"`
	MaxEntries uint32 `json:"max_entries"`
	Flags      uint32 `json:"flags"`
	Key        string `json:"key,omitempty"`
	Value      string `json:"value,omitempty"`
	Layout     string `json:"layout,omitempty"`
}

func layoutOf(m *ebpf.MapSpec, layout string) mapLayout {
	return mapLayout{
		m.Type.String(), m.KeySize, m.ValueSize, m.MaxEntries, m.Flags, layoutText(m.Key, 0),
		layoutText(m.Value, 0), layout,
	}
}

// differs returns an error that names the first difference.
func (l mapLayout) differs(want mapLayout) error {
	for _, c := range []struct {
		what        string
		there, here any
	}{
		{"type", l.Type, want.Type},
		{"size of the keys", l.KeySize, want.KeySize},
		{"size of the values", l.ValueSize, want.ValueSize},
		{"number of entries", l.MaxEntries, want.MaxEntries},
		{"flags", l.Flags, want.Flags},
		{"keys", l.Key, want.Key},
		{"values", l.Value, want.Value},
		{"layout", l.Layout, want.Layout},
	} {
		if c.there != c.here {
			return fmt.Errorf("%s: %v there, %v here", c.what, orNone(c.there), orNone(c.here))
		}
	}
	return nil
}

func orNone(v any) any {
	if v == "" {
		return "not said"
	}
	return v
}

// maxLayoutDepth bounds the nesting of types in a layout.
const maxLayoutDepth = 16

// layoutText describes how values of a type are laid out in memory: "struct ev
// {0: u64 a, 64: u32 b}", offsets in bits. "" is no type.
func layoutText(t btf.Type, depth int) string {
	if depth > maxLayoutDepth {
		return "…"
	}
	switch v := btf.UnderlyingType(t).(type) {
	case nil:
		return ""
	case *btf.Struct:
		return "struct " + v.Name + layoutMembers(v.Members, depth)
	case *btf.Union:
		return "union " + v.Name + layoutMembers(v.Members, depth)
	case *btf.Array:
		return fmt.Sprintf("%s[%d]", layoutText(v.Type, depth+1), v.Nelems)
	case *btf.Int:
		sign := "unsigned"
		if ctype.Signed(v) {
			sign = "signed"
		}
		return fmt.Sprintf("%s %d", sign, v.Size*8)
	case *btf.Enum:
		return fmt.Sprintf("enum %d", v.Size*8)
	default:
		return ctype.String(v)
	}
}

func layoutMembers(list []btf.Member, depth int) string {
	var parts []string
	for _, m := range list {
		s := fmt.Sprintf("%d: %s %s", m.Offset, layoutText(m.Type, depth+1), m.Name)
		if m.BitfieldSize != 0 {
			s += fmt.Sprintf(":%d", m.BitfieldSize)
		}
		parts = append(parts, s)
	}
	return " {" + strings.Join(parts, ", ") + "}"
}
