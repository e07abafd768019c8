package types

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Kind is the kind of a type.
type Kind uint8

// The kinds of types.
const (
	None Kind = iota // the type is not known
	Void
	Integer
	Bool
	Pointer
	Array
	C // a struct or union
	Tuple
	Record
	String
	Buffer
	Inet
	MAC
	Timestamp
	TimestampMode
	Kstack
	Ustack
	Ksym
	Usym
	Username
	CgroupPath
	Count
	Sum
	Min
	Max
	Avg
	Stats
	Hist
	Lhist
	Tseries
)

// kindNames are bpftrace's names of the kinds.
const kindNames = "none void int bool pointer array c_type tuple record string buffer inet " +
	"mac_address timestamp timestamp_mode kstack ustack ksym_t usym_t username cgroup_path_t " +
	"count_t sum_t min_t max_t avg_t stats_t hist_t lhist_t tseries_t"

// kindOf are the kinds by their names.
var kindOf = func() map[string]Kind {
	kinds := map[string]Kind{}
	for k := None; k <= Tseries; k++ {
		kinds[k.String()] = k
	}
	return kinds
}()

// String returns the kind as bpftrace's errors name it.
func (k Kind) String() string {
	names := kindNames
	for range k {
		_, names, _ = strings.Cut(names, " ")
	}
	name, _, _ := strings.Cut(names, " ")
	return name
}

// Space is an address space.
type Space uint8

// The address spaces.
const (
	NoSpace Space = iota
	KernelSpace
	UserSpace
)

// Type is the type of a value. It is immutable.
type Type struct {
	Kind     Kind
	Signed   bool // of integers and aggregations
	Flexible bool // of a literal that is not negative: signed or unsigned, as needed
	Context  bool // it is reached from the program's context
	Args     bool // it is args: its fields are arguments
	Internal bool // it is stored by the program, not read from memory
	Space    Space
	Size     uint64 // in bytes; a string of size 0 takes that of the assigned value
	Name     string // of an enum; also of a struct or union, with that keyword before it
	Elem     *Type  // of a pointer or array
	Len      uint64 // of an array, in elements
	Fields   []Field
	Mode     string   // of a stack, and of the result of nsecs: boot, for example
	Limit    uint64   // of a stack, in frames
	BTF      btf.Type // of a struct, union or enum

	weight  int32 // number of types in it
	aligned uint8 // alignment of a tuple or record; with it Type has 120 bytes, which maps store inline
}

// Enumerator returns the name of an enum's value, of which only the bits count that the enum
// has: a negative one may be extended or not. ok is false if the type is no enum, or has no such
// value. If several enumerators have the value, it is the last one's name, as bpftrace prints it.
func (t Type) Enumerator(value uint64) (name string, ok bool) {
	e, isEnum := t.BTF.(*btf.Enum)
	if !isEnum {
		return "", false
	}
	unused := 64 - 8*min(uint64(e.Size), 8)
	for _, v := range slices.Backward(e.Values) {
		if v.Value<<unused == value<<unused {
			return v.Name, true
		}
	}
	return "", false
}

// Field is an element of a tuple, or a named element of a record. Offset is in bytes.
type Field struct {
	Name   string
	Type   Type
	Offset uint64
}

// mostText is the length from which the text of a type is cut.
const mostText = 4096

// String returns the type as bpftrace's errors name it. It cuts texts of more than 4,096 bytes,
// and ends them with "...".
func (t Type) String() string {
	if t.Kind == Integer && t.Name == "" {
		if name, ok := integerNames[integerName{t.Size, t.Signed}]; ok {
			return name
		}
	}
	var b strings.Builder
	t.write(&b)
	if b.Len() > mostText {
		return b.String()[:mostText] + "..."
	}
	return b.String()
}

// integerName is what the name of an integer type depends on.
type integerName struct {
	size   uint64
	signed bool
}

var integerNames = map[integerName]string{
	{1, true}: "int8", {2, true}: "int16", {4, true}: "int32", {8, true}: "int64",
	{1, false}: "uint8", {2, false}: "uint16", {4, false}: "uint32", {8, false}: "uint64",
}

// write appends the type's text, or at least its first mostText bytes.
func (t *Type) write(b *strings.Builder) {
	if b.Len() > mostText {
		return
	}
	switch t.Kind {
	case Integer:
		if t.Name != "" {
			b.WriteString("enum " + t.Name)
			return
		}
		b.WriteString(t.sign("", "u") + "int" + strconv.FormatUint(8*t.Size, 10))
	case String:
		b.WriteString("string")
		if t.Size != 0 {
			b.WriteString("[" + strconv.FormatUint(t.Size, 10) + "]")
		}
	case Inet, Buffer:
		b.WriteString(t.Kind.String() + "[" + strconv.FormatUint(t.Size, 10) + "]")
	case Pointer:
		t.Elem.write(b)
		b.WriteString(" *")
	case Array:
		t.Elem.write(b)
		b.WriteString("[" + strconv.FormatUint(t.Len, 10) + "]")
	case C:
		t.writeC(b)
	case Tuple:
		b.WriteString("(")
		writeFields(b, t.Fields, ",")
		b.WriteString(")")
	case Record:
		b.WriteString("record { ")
		writeFields(b, t.Fields, ", ")
		b.WriteString(" }")
	case Kstack, Ustack:
		b.WriteString(t.Kind.String() + "_" + t.Mode + "_" + strconv.FormatUint(t.Limit, 10))
	case Min, Max, Sum, Avg, Stats:
		b.WriteString(t.sign("", "u") + t.Kind.String())
	default:
		b.WriteString(t.Kind.String())
	}
}

func (t Type) sign(signed, unsigned string) string {
	if t.Signed {
		return signed
	}
	return unsigned
}

// writeC appends a struct's name, or the types of its fields if it has none.
func (t *Type) writeC(b *strings.Builder) {
	b.WriteString(t.Name)
	if !strings.HasSuffix(t.Name, " ") {
		return
	}
	b.WriteString("{")
	for i, m := range members(t.BTF) {
		if i > 0 {
			b.WriteString(",")
		}
		if b.Len() > mostText {
			return
		}
		of := FromBTF(m.Type)
		of.write(b)
	}
	b.WriteString("}")
}

func writeFields(b *strings.Builder, fields []Field, sep string) {
	for i := range fields {
		if i > 0 {
			b.WriteString(sep)
		}
		if b.Len() > mostText {
			return
		}
		if f := &fields[i]; f.Name != "" {
			b.WriteString("." + f.Name + " = ")
		}
		fields[i].Type.write(b)
	}
}

// Equal reports whether two types are the same in bpftrace. It ignores whether a value is a
// literal, and address spaces.
func (t Type) Equal(u Type) bool {
	if t.Kind != u.Kind {
		return false
	}
	switch t.Kind {
	case C:
		return t.Name == u.Name && t.Size == u.Size
	case Pointer:
		return t.Elem == u.Elem || t.Elem.Equal(*u.Elem)
	case Array:
		return t.Len == u.Len && (t.Elem == u.Elem || t.Elem.Equal(*u.Elem))
	case Tuple, Record:
		switch {
		case len(t.Fields) != len(u.Fields):
			return false
		case len(t.Fields) == 0 || &t.Fields[0] == &u.Fields[0]:
			return true // the same one, which is immutable
		}
		for i, f := range t.Fields {
			if f.Name != u.Fields[i].Name || !f.Type.Equal(u.Fields[i].Type) {
				return false
			}
		}
		return true
	case Kstack, Ustack:
		return t.Mode == u.Mode && t.Limit == u.Limit
	}
	if t.Name != "" || u.Name != "" {
		return t.Name == u.Name && t.Size == u.Size
	}
	return t.Size == u.Size && t.Signed == u.Signed && sameEnumerators(t.BTF, u.BTF)
}

// sameEnumerators reports whether integer types without a name print alike: both are no enums, or
// have the same enumerators.
func sameEnumerators(t, u btf.Type) bool {
	a, _ := t.(*btf.Enum)
	b, _ := u.(*btf.Enum)
	return a == b || a != nil && b != nil && slices.Equal(a.Values, b.Values)
}

// compatible reports whether values may be assigned and compared, apart from their sizes.
func (t Type) compatible(u Type) bool {
	if t.Kind != u.Kind {
		return false
	}
	switch t.Kind {
	case C:
		return t.Name == u.Name
	case Pointer:
		return t.Elem == u.Elem || t.Elem.compatible(*u.Elem)
	case Tuple:
		if len(t.Fields) != len(u.Fields) {
			return false
		}
		if len(t.Fields) > 0 && &t.Fields[0] == &u.Fields[0] {
			return true
		}
		for i, f := range t.Fields {
			if !f.Type.compatible(u.Fields[i].Type) {
				return false
			}
		}
	case Record:
		if len(t.Fields) != len(u.Fields) {
			return false
		}
		if len(t.Fields) > 0 && &t.Fields[0] == &u.Fields[0] {
			return true
		}
		find := u.fields()
		for i := range t.Fields {
			f := &t.Fields[i]
			if g := find(f.Name); g == nil || !f.Type.compatible(g.Type) {
				return false
			}
		}
	case Kstack, Ustack:
		return t.Mode == u.Mode && t.Limit == u.Limit
	case Array:
		return t.Elem.Equal(*u.Elem) && (t.Size == 0 || u.Size == 0 || t.Size == u.Size)
	}
	return true
}

// fits reports whether all values of a type have the same meaning in another.
func (t Type) fits(u Type) bool {
	if !t.compatible(u) {
		return false
	}
	switch t.Kind {
	case String:
		return t.Size <= u.Size
	case Integer:
		if t.Signed == u.Signed || t.Flexible {
			return t.Size <= u.Size
		}
		return !t.Signed && t.Size < u.Size
	case Tuple:
		for i, f := range t.Fields {
			if !f.Type.fits(u.Fields[i].Type) {
				return false
			}
		}
		return true
	case Record:
		find := u.fields()
		for i := range t.Fields {
			if f := &t.Fields[i]; !f.Type.fits(find(f.Name).Type) {
				return false
			}
		}
		return true
	}
	return t.Equal(u)
}

func (t *Type) field(name string) *Field {
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return &t.Fields[i]
		}
	}
	return nil
}

// fields returns field for many names: of a large record it has an index.
func (t *Type) fields() func(name string) *Field {
	if len(t.Fields) < 16 {
		return t.field
	}
	index := make(map[string]*Field, len(t.Fields))
	for i := range t.Fields {
		if f := &t.Fields[i]; index[f.Name] == nil {
			index[f.Name] = f
		}
	}
	return func(name string) *Field { return index[name] }
}

// castable reports whether an aggregation has a number as its value.
func (t Type) castable() bool {
	switch t.Kind {
	case Count, Sum, Min, Max, Avg:
		return true
	}
	return false
}

// manyKeys reports whether an aggregation takes several elements of a map.
func (t Type) manyKeys() bool {
	return t.Kind == Hist || t.Kind == Lhist || t.Kind == Tseries
}

func (t Type) aggregation() bool { return t.castable() || t.manyKeys() || t.Kind == Stats }

func (t Type) number() bool { return t.castable() || t.Kind == Integer || t.Kind == Bool }

// bytes reports whether a value is a sequence of bytes, which have no alignment.
func (t Type) bytes() bool {
	switch t.Kind {
	case String, Usym, Inet, Buffer, Timestamp, MAC, CgroupPath:
		return true
	}
	return false
}

// align returns the alignment in a tuple, in bytes.
func (t Type) align() uint64 {
	switch {
	case t.bytes():
		return 1
	case t.Kind == Tuple || t.Kind == Record:
		return max(1, uint64(t.aligned))
	case t.Kind == C:
		return max(1, uint64(alignof(t.BTF)))
	case t.Size <= 2:
		return max(1, t.Size)
	case t.Kind == Array:
		return t.Elem.align()
	case t.Size <= 4:
		return 4
	}
	return 8
}

// integer returns the integer type of a size in bytes, at most 8.
func integer(size uint64, signed bool) Type {
	return Type{Kind: Integer, Size: min(size, 8), Signed: signed}
}

// enum returns the type of an enum, whose values e has: nil if they are not known.
func enum(size uint64, name string, e *btf.Enum) Type {
	t := Type{Kind: Integer, Size: size, Name: name}
	if e != nil { // an enum without a name, too, has names for its values
		t.BTF = e
	}
	return t
}

func text(size uint64) Type           { return Type{Kind: String, Size: size} }
func simple(k Kind, size uint64) Type { return Type{Kind: k, Size: size} }

func aggregate(k Kind, signed bool) Type { return Type{Kind: k, Size: 8, Signed: signed} }

func pointer(to Type, s Space) Type {
	return Type{Kind: Pointer, Size: 8, Elem: &to, Space: s, weight: added(0, to.weight)}
}

// pointee returns the type of a pointer's target, in the pointer's address space.
func (t Type) pointee() Type {
	e := *t.Elem
	if t.Space == UserSpace || t.Space == KernelSpace && e.Space != NoSpace {
		e.Space = t.Space
	}
	return e
}

func array(n uint64, elem Type) Type {
	return Type{Kind: Array, Size: n * elem.Size, Elem: &elem, Len: n, weight: added(0, elem.weight)}
}

// added returns the weight of a type with another one in it. It does not overflow.
func added(weight, other int32) int32 { return min(weight+other+1, 2*mostWeight) }

// group returns the tuple or record of fields, and sets their offsets.
func group(k Kind, fields []Field) Type {
	t := Type{Kind: k, Fields: fields}
	for i := range fields {
		t.weight = added(t.weight, fields[i].Type.weight)
		a := fields[i].Type.align()
		t.aligned = max(t.aligned, uint8(min(a, 128)))
		fields[i].Offset = (t.Size + a - 1) / a * a
		t.Size = fields[i].Offset + fields[i].Type.Size
	}
	a := t.align()
	t.Size = (t.Size + a - 1) / a * a
	return t
}

// bufferHead is the size of the length that precedes a buffer's bytes.
const bufferHead = 4

func buffer(size uint64) Type { return simple(Buffer, size+bufferHead) }

// stack returns the type of a stack of limit frames, which follow its length and, if it is a
// user stack, the process.
func stack(kernel bool, mode string, limit uint64) Type {
	elem, k, head := uint64(8), Kstack, uint64(8)
	if mode == "build_id" {
		elem = 32
	}
	if !kernel {
		k, head = Ustack, 16
	}
	return Type{Kind: k, Size: limit*elem + head, Mode: mode, Limit: limit}
}

// defaultFrames is the number of frames of a stack if none is given.
const defaultFrames = 127

func stackMode(name string) bool {
	switch name {
	case "bpftrace", "perf", "raw", "build_id":
		return true
	}
	return false
}
