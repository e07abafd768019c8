// Package layout describes the memory layout of Go types and BTF types, to decode the keys and
// values of maps and recordings by the types they were written with.
package layout

import (
	"fmt"
	"reflect"
	"strconv"
	"unsafe"
)

// maxFields bounds the description of one type: arrays of structs are described element by
// element.
const maxFields = 1 << 16

// Bounds of the memory that reading a recording takes.
const (
	// MaxChunk is the largest size of a chunk, raw or compressed, in bytes.
	MaxChunk = 32 << 20
	// MaxRecord is the largest size of a record, in bytes. No BPF stream has longer records.
	MaxRecord = MaxChunk - 1<<10
)

// field is a scalar, or an array of scalars, at a fixed offset in a type.
type field struct {
	// Name is the Go path, "Addr.Port" or "Stacks[2].PC"; empty if the type is a scalar itself.
	Name   string `json:"name,omitempty"`
	Offset int    `json:"offset"`
	// Size is the size of one element, in bytes.
	Size int `json:"size"`
	// Kind is u (unsigned), i (signed), f (float) or b (bool).
	Kind string `json:"kind"`
	// Count is the number of elements; 0 for a scalar.
	Count int `json:"count,omitempty"`
}

// Span returns the number of bytes that the field covers.
func (f *field) Span() int { return f.Size * max(f.Count, 1) }

// String describes the field for messages.
func (f *field) String() string {
	name := f.Name
	if name == "" {
		name = "value"
	}
	s := fmt.Sprintf("%s (%s%d", name, f.Kind, 8*f.Size)
	if f.Count > 0 {
		s += "×" + strconv.Itoa(f.Count)
	}
	return s + " at offset " + strconv.Itoa(f.Offset) + ")"
}

// Layout describes the places of the scalars of a fixed-size type in memory.
type Layout struct {
	// Size is the size of the type with its padding, in bytes; of an element if Slice is set.
	Size   int     `json:"size"`
	Slice  bool    `json:"slice,omitempty"` // the type is a slice with an element per CPU
	Fields []field `json:"fields"`
	// Opaque is set if the Go type is a string: the bytes, of whatever size the data has.
	Opaque bool `json:"-"`
}

// Of returns the layout of t, which may consist of integers of fixed size, floats, bools,
// arrays and structs of those only: what a BPF map can contain. A string stands for bytes of
// any size.
func Of(t reflect.Type) (*Layout, error) {
	l, err := of(t)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	return l, nil
}

func of(t reflect.Type) (*Layout, error) {
	if t.Kind() == reflect.String {
		return &Layout{Opaque: true}, nil
	}
	l := &Layout{Size: int(t.Size())}
	return l, l.add(t, "", 0)
}

// Sized returns the layout with the data's size, which an opaque layout takes over.
func (l *Layout) Sized(n int) *Layout {
	if !l.Opaque {
		return l
	}
	sized := Untyped(n)
	sized.Opaque, sized.Slice = true, l.Slice
	return sized
}

// OfKey is Of for the key of a recorded table, whose size may not be 0.
func OfKey(t reflect.Type) (*Layout, error) {
	l, err := Of(t)
	if err == nil && l.Size == 0 && !l.Opaque {
		err = fmt.Errorf("%v: has no bytes", t)
	}
	return l, err
}

// OfSlice is Of for a type that may be a slice of a fixed-size type.
func OfSlice(t reflect.Type) (*Layout, error) {
	elem := t
	slice := t.Kind() == reflect.Slice
	if slice {
		elem = t.Elem()
	}
	l, err := of(elem)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	l.Slice = slice
	return l, nil
}

func (l *Layout) add(t reflect.Type, name string, off int) error {
	if len(l.Fields) >= maxFields {
		return fmt.Errorf("more than %d fields", maxFields)
	}
	if kind := scalarKind(t.Kind()); kind != "" {
		l.Fields = append(l.Fields, field{Name: name, Offset: off, Size: int(t.Size()), Kind: kind})
		return nil
	}
	switch t.Kind() {
	case reflect.Array:
		return l.addArray(t, name, off)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			path := f.Name
			if name != "" {
				path = name + "." + f.Name
			}
			if err := l.add(f.Type, path, off+int(f.Offset)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Int, reflect.Uint, reflect.Uintptr:
		return fmt.Errorf("field %s: %v has another size on another machine: use %v32 or %v64",
			orValue(name), t, t, t)
	default:
		return fmt.Errorf("field %s: a %v is not plain data", orValue(name), t)
	}
}

func (l *Layout) addArray(t reflect.Type, name string, off int) error {
	elem := t.Elem()
	if kind := scalarKind(elem.Kind()); kind != "" && t.Len() > 0 {
		l.Fields = append(l.Fields, field{
			Name: name, Offset: off, Size: int(elem.Size()), Kind: kind, Count: t.Len(),
		})
		return nil
	}
	for i := range t.Len() {
		err := l.add(elem, name+"["+strconv.Itoa(i)+"]", off+i*int(elem.Size()))
		if err != nil {
			return err
		}
	}
	return nil
}

func scalarKind(k reflect.Kind) string {
	switch k {
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "u"
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "i"
	case reflect.Float32, reflect.Float64:
		return "f"
	case reflect.Bool:
		return "b"
	}
	return ""
}

func orValue(name string) string {
	if name == "" {
		return "value"
	}
	return name
}

// packed returns the size of the type's fields without padding between them.
func (l *Layout) packed() int {
	n := 0
	for i := range l.Fields {
		n += l.Fields[i].Span()
	}
	return n
}

// SameAs returns an error for the first difference between l and other, the layout of the data.
// Names and signedness may differ; sizes, offsets and kinds may not. Untyped data (of a map
// that was recorded without its types) matches every layout of its size, and an opaque l
// matches all data of its size.
func (l *Layout) SameAs(other *Layout) error {
	if (other.isUntyped() || l.Opaque) && l.Size == other.Size && l.Slice == other.Slice {
		return nil
	}
	for i := range min(len(l.Fields), len(other.Fields)) {
		a, b := &l.Fields[i], &other.Fields[i]
		if a.Offset != b.Offset || a.Size != b.Size || max(a.Count, 1) != max(b.Count, 1) ||
			(a.Kind == "f") != (b.Kind == "f") {
			return fmt.Errorf("field %v, but the data has %v", a, b)
		}
	}
	switch n, m := len(l.Fields), len(other.Fields); {
	case n > m:
		return fmt.Errorf("field %v is not in the data", &l.Fields[m])
	case n < m:
		return fmt.Errorf("the data's field %v is missing", &other.Fields[n])
	case l.Size != other.Size:
		return fmt.Errorf("%d bytes, but the data has %d", l.Size, other.Size)
	case l.Slice != other.Slice:
		return fmt.Errorf("one is a value by CPU, the other a single value")
	}
	return nil
}

// Swap reverses the bytes of every scalar in b, which contains values of this layout one after
// the other, from a machine of the other byte order.
func (l *Layout) Swap(b []byte) {
	if l.Size == 0 {
		return
	}
	for ; len(b) >= l.Size; b = b[l.Size:] {
		for i := range l.Fields {
			f := &l.Fields[i]
			for j := range max(f.Count, 1) {
				s := b[f.Offset+j*f.Size:][:f.Size]
				for x, y := 0, len(s)-1; x < y; x, y = x+1, y-1 {
					s[x], s[y] = s[y], s[x]
				}
			}
		}
	}
}

// Codec copies values of one type between the kernel's bytes and Go memory.
type Codec struct {
	Layout *Layout
	// Size is the number of bytes that the kernel keeps per value.
	Size int
	// Direct is set if the kernel's bytes are the Go value's bytes.
	Direct bool
}

// NewCodec returns the codec between t and a map's key or value of size bytes. A map may store
// t with Go's (and C's) padding, or packed without any.
func NewCodec(t reflect.Type, what string, size int) (Codec, error) {
	l, err := Of(t)
	if err != nil {
		return Codec{}, fmt.Errorf("%s %w", what, err)
	}
	c := Codec{Layout: l.Sized(size), Size: size}
	if l.Opaque {
		return c, nil
	}
	switch size {
	case l.Size:
		c.Direct = true
	case l.packed():
	default:
		return Codec{}, fmt.Errorf("%s %v: %w", what, t, l.sizeError(size))
	}
	return c, nil
}

// sizeError returns an error with the field of l that does not fit into size bytes, or the last
// field before the map's bytes that no field covers.
func (l *Layout) sizeError(size int) error {
	for i := range l.Fields {
		if f := &l.Fields[i]; f.Offset+f.Span() > size {
			return fmt.Errorf("%d bytes, the map has %d: no room for field %v", l.Size, size, f)
		}
	}
	if n := len(l.Fields); n > 0 {
		f := &l.Fields[n-1]
		return fmt.Errorf("%d bytes, the map has %d: nothing covers the bytes after field %v",
			l.Size, size, f)
	}
	return fmt.Errorf("%d bytes, the map has %d", l.Size, size)
}

// Decode copies one value from src, c.Size bytes, to the value at dst.
func (c *Codec) Decode(dst unsafe.Pointer, src []byte) {
	if c.Layout.Opaque {
		*(*string)(dst) = string(src)
		return
	}
	if c.Direct {
		copy(unsafe.Slice((*byte)(dst), c.Size), src)
		return
	}
	to := unsafe.Slice((*byte)(dst), c.Layout.Size)
	for i := range c.Layout.Fields {
		f := &c.Layout.Fields[i]
		n := copy(to[f.Offset:f.Offset+f.Span()], src)
		src = src[n:]
	}
}

// Encode appends the kernel's form of the value at src to dst. A string of another size
// than the kernel's is cut, or has zeros added.
func (c *Codec) Encode(dst []byte, src unsafe.Pointer) []byte {
	if c.Layout.Opaque {
		s := *(*string)(src)
		dst = append(dst, s[:min(len(s), c.Size)]...)
		return append(dst, make([]byte, c.Size-min(len(s), c.Size))...)
	}
	from := unsafe.Slice((*byte)(src), c.Layout.Size)
	if c.Direct {
		return append(dst, from...)
	}
	for i := range c.Layout.Fields {
		f := &c.Layout.Fields[i]
		dst = append(dst, from[f.Offset:f.Offset+f.Span()]...)
	}
	return dst
}
