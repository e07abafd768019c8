package output

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/escape"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script/internal/life"
	"github.com/borescope/borescope/probe/script/internal/printf"
	"github.com/borescope/borescope/probe/script/types"
)

// Names gives names to numbers, where a script prints one for the other. "" is none.
type Names interface {
	// Kernel returns the functions at an address of the kernel, the innermost inlined one first;
	// the last is the function whose frame it is.
	Kernel(pc uint64) []Function
	// User returns the functions at an address of a process, likewise.
	User(p Process, pc uint64) []Function
	// FilePlace returns the build-id of the file that an address of a process is in, and the offset
	// there in bytes; "" if there is none.
	FilePlace(p Process, pc uint64) (buildID string, offset uint64)
	// Username returns the name of a user.
	Username(uid uint64) string
	// Comm returns the name of a process or thread, "" if there is none any more.
	Comm(id int) string
	// Cgroup returns the path of a control group, by its id.
	Cgroup(id uint64) string
}

// Process is whose user stacks and addresses are in values of scripts: the number of a process, and when
// it ran the program that the addresses are of, so that they are not taken for those of what it executed
// later, nor for those of another process with that number. The values of processes are comparable: each
// program that a process executes has one, and some have several.
type Process uint64

// PID is the number of the process. Outside of the script's pid namespace it is that of the initial one,
// with bit 31 set.
func (p Process) PID() int {
	pid := p % life.Stranger
	if p&life.Stranger != 0 {
		pid |= kernel.Stranger
	}
	return int(pid)
}

// Since returns a time from which on the process ran the program, in nanoseconds of CLOCK_MONOTONIC, given
// the time now; 0 if that is not known.
func (p Process) Since(now uint64) uint64 {
	at := uint64(p) >> life.TimeShift
	if at == 0 {
		return 0
	}
	const turn = 1 << (64 - life.TimeShift)
	now >>= life.Unit
	return (now + 1 - (now+1-at)%turn) << life.Unit // programs round up
}

// Function is a function at an address.
type Function struct {
	Name    string
	Offset  uint64 // of the address, from the function's start
	Module  string // the file that has it
	Inlined bool   // it is part of the next function
	File    string // the source file of the address, and
	Line    int    // the line, 0 if it is not known
}

// Tuple is a value of several parts.
type Tuple []any

// List is an array.
type List []any

// Record is a value whose parts have names, in order.
type Record []Field

// Field is a part of a Record.
type Field struct {
	Name  string
	Value any
}

// Symbol is a number that is printed as text, such as a pointer or an enumerator. JSON has the
// number.
type Symbol struct {
	Text   string
	Number uint64
}

// Buffer is bytes.
type Buffer = printf.Buffer

// String returns the symbol's text.
func (s Symbol) String() string { return s.Text }

// Uint64 returns the symbol's number.
func (s Symbol) Uint64() uint64 { return s.Number }

// String returns "(a, b)".
func (t Tuple) String() string { return "(" + join(t, ", ") + ")" }

// String returns "[a,b]".
func (l List) String() string { return "[" + join(l, ",") + "]" }

func join(values []any, sep string) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = printf.Text(v)
	}
	return strings.Join(parts, sep)
}

// String returns "{ .name = value, .other = 2 }".
func (r Record) String() string {
	if len(r) == 0 {
		return "{}"
	}
	parts := make([]string, len(r))
	for i, f := range r {
		parts[i] = "." + f.Name + " = " + printf.Text(f.Value)
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

// AppendJSON appends the number.
func (s Symbol) AppendJSON(b []byte) []byte { return appendJSON(b, s.Number) }

// AppendJSON appends an array.
func (t Tuple) AppendJSON(b []byte) []byte { return appendList(b, t) }

// AppendJSON appends an array.
func (l List) AppendJSON(b []byte) []byte { return appendList(b, l) }

// AppendJSON appends an object.
func (r Record) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	for i, f := range r {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(appendJSON(b, f.Name), ": "...)
		b = appendJSON(b, f.Value)
	}
	return append(b, '}')
}

func appendList(b []byte, values []any) []byte {
	b = append(b, '[')
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSON(b, v)
	}
	return append(b, ']')
}

// Decode returns a value of a script's type from what a program stored. o may be nil.
func Decode(t types.Type, v bpf.Value, o *Options) any {
	if o == nil {
		o = &Options{}
	}
	return o.decode(t, v)
}

func (o *Options) decode(t types.Type, v bpf.Value) any {
	switch t.Kind {
	case types.Bool:
		return v.Int() != 0
	case types.Count, types.Sum, types.Min, types.Max, types.Avg:
		if t.Signed {
			return v.Int()
		}
		return uint64(v.Int())
	case types.Integer:
		if _, enum := t.BTF.(*btf.Enum); enum || t.Name != "" {
			return enumerator(t, v)
		}
		if name, ok := numberName(t.Mode, v.Int(), o.Arch); ok {
			return name
		}
		if t.Mode == "comm" {
			return o.comm(int(v.Int()))
		}
		if t.Signed {
			return v.Int()
		}
		return uint64(v.Int())
	case types.Pointer:
		return Symbol{"0x" + strconv.FormatUint(uint64(v.Int()), 16), uint64(v.Int())}
	case types.String:
		return o.text(t, v)
	case types.Tuple:
		parts := make(Tuple, len(t.Fields))
		for i, f := range t.Fields {
			parts[i] = o.decode(f.Type, v.Elem(i))
		}
		return parts
	case types.Record:
		parts := make(Record, len(t.Fields))
		for i, f := range t.Fields {
			parts[i] = Field{f.Name, o.decode(f.Type, v.Elem(i))}
		}
		return parts
	case types.Array:
		if t.Elem.Kind == types.Integer { // also of one byte: the script says that it is no text
			return integers(t, v)
		}
		return o.memory(v.Type.Elem, []byte(v.Raw), 0)
	case types.C:
		return o.memory(v.Type.Elem, []byte(v.Raw), 0)
	case types.Buffer:
		data := v.Elem(1).Raw
		return Buffer(data[:min(uint64(v.Elem(0).Int()), uint64(len(data)))])
	}
	return o.named(t, v)
}

// integers returns an array of integers.
func integers(t types.Type, v bpf.Value) List {
	size := int(t.Elem.Size)
	list := make(List, min(int(t.Len), len(v.Raw)/max(size, 1)))
	for i := range list {
		n := number([]byte(v.Raw[i*size:][:size]), t.Elem.Signed)
		if list[i] = n; t.Elem.Signed {
			list[i] = int64(n)
		}
	}
	return list
}

// text returns a text, with the mark of one that was cut: of one that fills its type.
func (o *Options) text(t types.Type, v bpf.Value) string {
	s := v.Text()
	cut := uint64(len(s)) == t.Size && t.Size > 0
	if !o.Raw {
		s = escape.Terminal(s)
	}
	if cut {
		s += o.trailer()
	}
	return s
}

func (o *Options) trailer() string {
	if o.Cut == "" {
		return ".."
	}
	return o.Cut
}

func enumerator(t types.Type, v bpf.Value) Symbol {
	n := uint64(v.Int())
	if name, ok := t.Enumerator(n); ok {
		return Symbol{name, n}
	}
	if t.Size < 8 {
		n &= 1<<(8*t.Size) - 1
	}
	return Symbol{strconv.FormatUint(n, 10), n}
}

// keyOf returns the text of a key, without the parentheses of a tuple. In JSON the parts of a tuple
// have no blanks between them.
func keyOf(v any, inJSON bool) string {
	t, ok := v.(Tuple)
	switch {
	case !ok:
		return printf.Text(v)
	case inJSON:
		return join(t, ",")
	}
	return join(t, ", ")
}

// compare compares keys as bpftrace does: numbers, also unsigned ones, as signed, and texts; tuples
// by their first parts that differ and are of these.
func compare(a, b any) int {
	switch x := a.(type) {
	case int64:
		y, _ := b.(int64)
		return cmp.Compare(x, y)
	case uint64:
		y, _ := b.(uint64)
		return cmp.Compare(int64(x), int64(y))
	case string:
		y, _ := b.(string)
		return strings.Compare(x, y)
	case Tuple:
		y, _ := b.(Tuple)
		for i := range min(len(x), len(y)) {
			if c := compare(x[i], y[i]); c != 0 {
				return c
			}
		}
	}
	return 0
}
