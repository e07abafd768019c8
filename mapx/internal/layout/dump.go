package layout

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
)

// Untyped returns the layout of n bytes of unknown type.
func Untyped(n int) *Layout {
	return &Layout{Size: n, Fields: []field{{Size: 1, Kind: "u", Count: n}}}
}

// isUntyped reports whether a layout has no more than a size.
func (l *Layout) isUntyped() bool {
	return len(l.Fields) == 1 && l.Fields[0].Size == 1 && l.Fields[0].Kind == "u" &&
		l.Fields[0].Count > 0
}

// MapTypes returns the BTF types of key and value, nil for those without one, and for maps
// whose BTF this process may not read.
func MapTypes(m *ebpf.Map) (types [2]btf.Type, err error) {
	info, err := kernel.GetMapInfo(m.FD())
	if err != nil || info.BTFID == 0 || info.BTFKeyType == 0 && info.BTFValueType == 0 {
		return types, err
	}
	h, err := m.Handle()
	if err != nil {
		return types, nil // another process's BTF needs CAP_SYS_ADMIN
	}
	defer h.Close()
	spec, err := h.Spec(nil)
	if err != nil {
		return types, fmt.Errorf("BTF of %v: %w", m, err)
	}
	for i, id := range []uint32{info.BTFKeyType, info.BTFValueType} {
		if id == 0 {
			continue
		}
		if types[i], err = spec.TypeByID(btf.TypeID(id)); err != nil {
			return types, fmt.Errorf("BTF of %v: %w", m, err)
		}
	}
	return types, nil
}

// Valid checks a layout that was read from a file.
func (l *Layout) Valid() error {
	if l.Size < 0 || l.Size > MaxChunk || len(l.Fields) > maxFields {
		return fmt.Errorf("layout of %d bytes with %d fields", l.Size, len(l.Fields))
	}
	for i := range l.Fields {
		f := &l.Fields[i]
		ok := f.Size == 1 || f.Size == 2 || f.Size == 4 || f.Size == 8
		if !ok || f.Offset < 0 || f.Count < 0 || f.Count > l.Size || f.Offset > l.Size-f.Span() {
			return fmt.Errorf("field %q outside of the value", f.Name)
		}
	}
	return nil
}

// TextBytes returns about how many bytes of memory Text takes, most of them for the text.
func (l *Layout) TextBytes() int64 {
	if l.isUntyped() {
		return 2 * int64(l.Size)
	}
	n := int64(0)
	for i := range l.Fields {
		f := &l.Fields[i]
		n += int64(len(f.Name)) + 4*int64(f.Span()) + 2
	}
	return n
}

// Text returns the fields of one key or value as text. order is the byte order of b: "big", or
// any other string for little.
func (l *Layout) Text(b []byte, order string) string {
	if l.isUntyped() {
		return fmt.Sprintf("%x", b)
	}
	var out []string
	for i := range l.Fields {
		f := &l.Fields[i]
		s := f.text(b[f.Offset:f.Offset+f.Span()], order)
		if f.Name != "" {
			s = f.Name + "=" + s
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func (f *field) text(b []byte, order string) string {
	if f.Size == 1 && f.Count > 0 {
		text, _, _ := strings.Cut(string(b), "\x00")
		return strconv.Quote(text)
	}
	var out []string
	for ; len(b) >= f.Size; b = b[f.Size:] {
		out = append(out, f.scalar(b[:f.Size], order))
	}
	if f.Count > 0 {
		return "[" + strings.Join(out, " ") + "]"
	}
	return out[0]
}

func (f *field) scalar(b []byte, order string) string {
	u := uint64(0)
	for i := range b {
		c := b[i]
		if order != "big" {
			c = b[len(b)-1-i]
		}
		u = u<<8 | uint64(c)
	}
	shift := 64 - 8*f.Size
	switch {
	case f.Kind == "i":
		return strconv.FormatInt(int64(u<<shift)>>shift, 10)
	case f.Kind == "b":
		return strconv.FormatBool(u != 0)
	case f.Kind == "f" && f.Size == 4:
		return strconv.FormatFloat(float64(math.Float32frombits(uint32(u))), 'g', -1, 32)
	case f.Kind == "f":
		return strconv.FormatFloat(math.Float64frombits(u), 'g', -1, 64)
	}
	return strconv.FormatUint(u, 10)
}
