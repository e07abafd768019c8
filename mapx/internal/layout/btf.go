package layout

import (
	"fmt"
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/ctype"
)

// CheckBTF compares the layout of a Go type with the BTF type that the map was created with.
// Every Go field must match a field of the same offset and size. Bytes ([N]byte) match
// anything, and fields of the map that Go leaves to padding or to blank fields are accepted. A
// BTF type without a fixed layout (a union, bit fields) matches every layout.
func CheckBTF(l *Layout, typ btf.Type) error {
	var w BtfWalk
	if !w.Add(typ, "", 0) {
		return nil // a type without a fixed layout: nothing to compare
	}
	for i := range l.Fields {
		f := &l.Fields[i]
		if f.Size == 1 && f.Count > 0 {
			continue
		}
		if err := w.check(f); err != nil {
			return err
		}
	}
	return nil
}

// BtfWalk collects the scalars of a BTF type.
type BtfWalk struct {
	Fields []field
}

// Add appends the scalars of a type to w.Fields. It returns false if the type contains
// something that has no fixed place, or too many fields.
func (w *BtfWalk) Add(typ btf.Type, name string, off int) bool {
	if len(w.Fields) >= maxFields {
		return false
	}
	switch t := btf.UnderlyingType(typ).(type) {
	case *btf.Int:
		kind := "u"
		switch {
		case ctype.Signed(t):
			kind = "i"
		case t.Encoding == btf.Bool:
			kind = "b"
		}
		w.Fields = append(w.Fields, field{Name: name, Offset: off, Size: int(t.Size), Kind: kind})
	case *btf.Enum:
		w.Fields = append(w.Fields, field{Name: name, Offset: off, Size: int(t.Size), Kind: "u"})
	case *btf.Float:
		w.Fields = append(w.Fields, field{Name: name, Offset: off, Size: int(t.Size), Kind: "f"})
	case *btf.Pointer:
		w.Fields = append(w.Fields, field{Name: name, Offset: off, Size: 8, Kind: "u"})
	case *btf.Array:
		return w.addArray(t, name, off)
	case *btf.Struct:
		for i := range t.Members {
			if !w.addMember(&t.Members[i], name, off) {
				return false
			}
		}
	default: // unions, forward declarations, functions
		return false
	}
	return true
}

func (w *BtfWalk) addArray(t *btf.Array, name string, off int) bool {
	size, err := btf.Sizeof(t.Type)
	if err != nil {
		return false
	}
	start := len(w.Fields)
	if t.Nelems == 0 || !w.Add(t.Type, name, off) {
		return false
	}
	if len(w.Fields) == start+1 && w.Fields[start].Size == size {
		w.Fields[start].Count = int(t.Nelems)
		return true
	}
	for i := range w.Fields[start:] {
		w.Fields[start+i].Name = name + "[0]" + w.Fields[start+i].Name[len(name):]
	}
	for i := 1; i < int(t.Nelems); i++ {
		if !w.Add(t.Type, name+"["+strconv.Itoa(i)+"]", off+i*size) {
			return false
		}
	}
	return true
}

func (w *BtfWalk) addMember(m *btf.Member, name string, off int) bool {
	if m.BitfieldSize != 0 {
		return false
	}
	path := m.Name
	switch {
	case m.Name == "":
		path = name
	case name != "":
		path = name + "." + m.Name
	}
	return w.Add(m.Type, path, off+int(m.Offset.Bytes()))
}

// check returns an error if f differs from the map's field at its place.
func (w *BtfWalk) check(f *field) error {
	for i := range w.Fields {
		g := &w.Fields[i]
		if f.Offset+f.Span() <= g.Offset || g.Offset+g.Span() <= f.Offset {
			continue
		}
		aligned := f.Size == g.Size && (f.Offset-g.Offset)%f.Size == 0
		inside := f.Offset >= g.Offset && f.Offset+f.Span() <= g.Offset+g.Span()
		if aligned && (inside || f.Count > 0) && (f.Kind == "f") == (g.Kind == "f") {
			continue
		}
		return fmt.Errorf("field %v lies on the map's %v", f, g)
	}
	return nil
}
