package cdecl_test

import (
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/cdecl"
)

// printer writes types as C that has the same layout: everything is packed, what lies
// between members is said by bit fields without a name.
type printer struct {
	strings.Builder
	done  map[btf.Type]bool
	large bool // a gap is too large to be written so
}

func printed(d *cdecl.Decls) (text string, ok bool) {
	p := &printer{done: map[btf.Type]bool{}}
	for _, t := range d.Types {
		p.define(t.Type)
	}
	return p.String(), !p.large && p.Len() < 1<<20
}

// define writes a type's definition after those of what it has by value.
func (p *printer) define(t btf.Type) {
	if p.done[t] || p.Len() > 1<<20 {
		return
	}
	switch t := t.(type) {
	case *btf.Typedef:
		p.done[t] = true
		p.needs(t.Type)
		fmt.Fprintf(p, "typedef %s;\n", p.declare(t.Type, t.Name))
	case *btf.Enum:
		p.done[t] = true
		if t.Name != "" {
			fmt.Fprintf(p, "%s;\n", enum(t))
		}
	case *btf.Struct:
		p.done[t] = true
		p.membersNeed(t.Members)
		if t.Name != "" {
			fmt.Fprintf(p, "%s;\n", p.body("struct "+t.Name, t.Size, t.Members, false))
		}
	case *btf.Union:
		p.done[t] = true
		p.membersNeed(t.Members)
		if t.Name != "" {
			fmt.Fprintf(p, "%s;\n", p.body("union "+t.Name, t.Size, t.Members, true))
		}
	}
}

func (p *printer) membersNeed(ms []btf.Member) {
	for _, m := range ms {
		p.needs(m.Type)
	}
}

// needs defines what a type has by value, and the names that it uses.
func (p *printer) needs(t btf.Type) {
	switch t := t.(type) {
	case *btf.Pointer:
		switch t.Target.(type) {
		case *btf.Struct, *btf.Union:
			if t.Target.TypeName() == "" {
				p.needs(t.Target)
			}
		default:
			p.needs(t.Target)
		}
	case *btf.Const:
		p.needs(t.Type)
	case *btf.Volatile:
		p.needs(t.Type)
	case *btf.Array:
		p.needs(t.Type)
	case *btf.FuncProto:
		p.needs(t.Return)
		for _, a := range t.Params {
			p.needs(&btf.Pointer{Target: a.Type})
		}
	default:
		p.define(t)
	}
}

// declare is a declaration of a name.
func (p *printer) declare(t btf.Type, name string) string {
	switch t := t.(type) {
	case *btf.Pointer:
		return p.declare(t.Target, pointed(t.Target, "*"+name))
	case *btf.Const:
		if ptr, ok := t.Type.(*btf.Pointer); ok {
			return p.declare(ptr.Target, pointed(ptr.Target, "*const "+name))
		}
		return "const " + p.declare(t.Type, name)
	case *btf.Volatile:
		return p.declare(t.Type, name) // what is of a pointer has another place
	case *btf.Array:
		return p.declare(t.Type, fmt.Sprintf("%s[%d]", name, t.Nelems))
	case *btf.FuncProto:
		var params []string
		for i, a := range t.Params {
			if _, void := a.Type.(*btf.Void); void && i == len(t.Params)-1 {
				params = append(params, "...")
			} else {
				params = append(params, p.declare(a.Type, a.Name))
			}
		}
		return p.declare(t.Return, fmt.Sprintf("%s(%s)", name, strings.Join(params, ", ")))
	case *btf.Void:
		return "void " + name
	case *btf.Fwd:
		return fmt.Sprintf("%v %s %s", t.Kind, t.Name, name)
	case *btf.Struct:
		if t.Name != "" {
			return "struct " + t.Name + " " + name
		}
		return p.body("struct", t.Size, t.Members, false) + " " + name
	case *btf.Union:
		if t.Name != "" {
			return "union " + t.Name + " " + name
		}
		return p.body("union", t.Size, t.Members, true) + " " + name
	case *btf.Enum:
		if t.Name != "" {
			return "enum " + t.Name + " " + name
		}
		// Its values can be declared once.
		return fmt.Sprintf("enum : %s { unnamed%d } %s", integer(t.Size, t.Signed), p.Len()+rand.Int(), name)
	}
	return t.TypeName() + " " + name
}

func pointed(to btf.Type, name string) string {
	switch to.(type) {
	case *btf.Array, *btf.FuncProto:
		return "(" + name + ")"
	}
	return name
}

func (p *printer) body(head string, size uint32, ms []btf.Member, union bool) string {
	align := uint32(1)
	for size > 0 && size%(align*2) == 0 {
		align *= 2
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s {\n", head)
	at := btf.Bits(0)
	for _, m := range ms {
		if m.Offset-at > mostGap {
			p.large = true
			return ""
		}
		at = gap(&b, at, m.Offset)
		b.WriteString(p.declare(m.Type, m.Name))
		if m.BitfieldSize > 0 {
			fmt.Fprintf(&b, " : %d", m.BitfieldSize)
			at += m.BitfieldSize
		} else if n, err := btf.Sizeof(m.Type); err == nil {
			at += btf.Bits(n * 8)
		}
		b.WriteString(";\n")
		if union {
			at = 0
		}
	}
	switch end := btf.Bits(size * 8); {
	case union && end <= 64 && end > 0:
		fmt.Fprintf(&b, "unsigned long : %d;\n", end)
	case !union && end-at <= mostGap:
		gap(&b, at, end)
	}
	fmt.Fprintf(&b, "} __attribute__((packed, aligned(%d)))", align)
	return b.String()
}

// mostGap is how many bits lie between members that are printed.
const mostGap = 1 << 15

// gap writes bit fields from a place to another one.
func gap(b *strings.Builder, from, to btf.Bits) btf.Bits {
	for ; from < to; from += min(to-from, 64) {
		fmt.Fprintf(b, "unsigned long : %d;\n", min(to-from, 64))
	}
	return to
}

func integer(size uint32, signed bool) string {
	name := map[uint32]string{1: "char", 2: "short", 4: "int", 8: "long"}[size]
	if signed {
		return "signed " + name
	}
	return "unsigned " + name
}

func enum(e *btf.Enum) string {
	var b strings.Builder
	fmt.Fprintf(&b, "enum %s : %s {", e.Name, integer(e.Size, e.Signed))
	for _, v := range e.Values {
		switch {
		case !e.Signed:
			fmt.Fprintf(&b, "%s = %dUL, ", v.Name, v.Value)
		case int64(v.Value) == math.MinInt64:
			fmt.Fprintf(&b, "%s = -%d - 1, ", v.Name, int64(math.MaxInt64))
		default:
			fmt.Fprintf(&b, "%s = %d, ", v.Name, int64(v.Value))
		}
	}
	return b.String() + "}"
}

// roundTrip prints what was read and reads it again, to the same types.
func roundTrip(t *testing.T, d *cdecl.Decls, o *cdecl.Options) {
	t.Helper()
	text, ok := printed(d)
	if !ok {
		return
	}
	again, err := cdecl.Parse("again.h", []byte(text), &cdecl.Options{Arch: o.Arch, Resolve: o.Resolve})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for _, typ := range d.Types {
		c := comparison{seen: map[[2]btf.Type]bool{}}
		if diff := c.differ(typ.Type, again.Type(typ.Kind, typ.Name), typ.Name, 0); diff != "" {
			t.Fatalf("%s, after\n%s", diff, text)
		}
	}
}

type comparison struct {
	seen map[[2]btf.Type]bool
	// namesOnly is for types that were made elsewhere: what is only pointed to need not
	// be defined, and integers are alike by name.
	namesOnly bool
}

func (c *comparison) differ(a, b btf.Type, path string, depth int) string {
	a, b = unqualified(a), unqualified(b)
	if a == b || depth > 200 {
		return ""
	}
	if c.namesOnly {
		_, forward := b.(*btf.Fwd)
		_, number := b.(*btf.Int)
		if (forward || number) && a.TypeName() == b.TypeName() {
			return ""
		}
	}
	no := fmt.Sprintf("%s is %v, then %v", path, a, b)
	if b == nil || fmt.Sprintf("%T", a) != fmt.Sprintf("%T", b) || a.TypeName() != b.TypeName() {
		return no
	}
	if c.seen[[2]btf.Type{a, b}] {
		return ""
	}
	c.seen[[2]btf.Type{a, b}] = true
	inner := func(a, b btf.Type, name string) string { return c.differ(a, b, path+name, depth+1) }
	same := true
	switch a := a.(type) {
	case *btf.Pointer:
		return inner(a.Target, b.(*btf.Pointer).Target, "*")
	case *btf.Typedef:
		return inner(a.Type, b.(*btf.Typedef).Type, "")
	case *btf.Array:
		if b := b.(*btf.Array); a.Nelems == b.Nelems {
			return inner(a.Type, b.Type, "[]")
		}
		return no
	case *btf.Struct:
		return c.differMembers(a.Members, b.(*btf.Struct).Members, a.Size, b.(*btf.Struct).Size, path, depth)
	case *btf.Union:
		return c.differMembers(a.Members, b.(*btf.Union).Members, a.Size, b.(*btf.Union).Size, path, depth)
	case *btf.FuncProto:
		b := b.(*btf.FuncProto)
		if same = len(a.Params) == len(b.Params); same {
			for i := range a.Params {
				if d := inner(a.Params[i].Type, b.Params[i].Type, "()"); d != "" || a.Params[i].Name != b.Params[i].Name {
					return no + d
				}
			}
			return inner(a.Return, b.Return, "()")
		}
	case *btf.Enum:
		b := b.(*btf.Enum)
		same = a.Size == b.Size && a.Signed == b.Signed && (a.Name == "" || fmt.Sprint(a.Values) == fmt.Sprint(b.Values))
	case *btf.Int:
		same = *a == *b.(*btf.Int)
	case *btf.Float:
		same = *a == *b.(*btf.Float)
	case *btf.Fwd:
		same = *a == *b.(*btf.Fwd)
	}
	if !same {
		return no
	}
	return ""
}

func (c *comparison) differMembers(a, b []btf.Member, aSize, bSize uint32, path string, depth int) string {
	if aSize != bSize || len(a) != len(b) {
		return fmt.Sprintf("%s has %d bytes and %d members, then %d and %d", path, aSize, len(a), bSize, len(b))
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Offset != b[i].Offset || a[i].BitfieldSize != b[i].BitfieldSize {
			return fmt.Sprintf("%s: %v, then %v", path, a[i], b[i])
		}
		if d := c.differ(a[i].Type, b[i].Type, path+"."+a[i].Name, depth+1); d != "" {
			return d
		}
	}
	return ""
}

func unqualified(t btf.Type) btf.Type {
	for {
		switch q := t.(type) {
		case *btf.Const:
			t = q.Type
		case *btf.Volatile:
			t = q.Type
		default:
			return t
		}
	}
}

// TestPrinted: what is read is printed and read again to the same layout.
func TestPrinted(t *testing.T) {
	for seed := range int64(20) {
		for _, arch := range []string{"amd64", "arm64"} {
			w := &writer{Rand: rand.New(rand.NewSource(seed))}
			o := &cdecl.Options{Arch: arch}
			d, err := cdecl.Parse("random.h", []byte(w.text(30)), o)
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, d, o)
		}
	}
}

// FuzzParse: whatever is read can be printed, and is read to the same types then.
func FuzzParse(f *testing.F) {
	for seed := range int64(5) {
		w := &writer{Rand: rand.New(rand.NewSource(seed))}
		f.Add(w.text(3), false)
	}
	for _, s := range seeds {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, skip bool) {
		if len(text) > 1<<14 {
			return
		}
		o := &cdecl.Options{Arch: "amd64", SkipCode: skip}
		d, err := cdecl.Parse("x.h", []byte(text), o)
		if err != nil {
			e, ok := err.(*cdecl.Error)
			if !ok || d != nil || e.Pos.Line < 1 || e.Pos.Column < 1 || e.Len < 1 || len(e.Msg) > 1000 {
				t.Fatalf("%#v", err)
			}
			return
		}
		roundTrip(t, d, o)
	})
}
