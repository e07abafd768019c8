package rawbtf

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// sample is BTF with a struct of everything that Whole tells apart.
func sample(t *testing.T) []byte {
	t.Helper()
	i := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	far := &btf.Struct{Name: "far", Size: 4, Members: []btf.Member{{Name: "deep", Type: i}}}
	either := &btf.Union{Name: "either", Size: 4, Members: []btf.Member{{Name: "x", Type: i}}}
	call := &btf.FuncProto{Return: i, Params: []btf.FuncParam{{Name: "f", Type: &btf.Pointer{Target: far}}}}
	top := &btf.Struct{Name: "top", Size: 48, Members: []btf.Member{
		{Name: "near", Type: &btf.Pointer{Target: &btf.Struct{Name: "near", Size: 4, Members: []btf.Member{{Name: "y", Type: i}}}}},
		{Name: "far", Type: &btf.Pointer{Target: &btf.Const{Type: far}}, Offset: 64},
		{Name: "either", Type: &btf.Pointer{Target: either}, Offset: 128},
		{Name: "call", Type: &btf.Pointer{Target: call}, Offset: 192},
		{Name: "number", Type: &btf.Pointer{Target: i}, Offset: 256},
		{Name: "inside", Type: &btf.Struct{Name: "inside", Size: 4, Members: []btf.Member{{Name: "z", Type: i}}}, Offset: 320},
	}}
	b, err := btf.NewBuilder([]btf.Type{
		&btf.Func{Name: "far", Linkage: btf.StaticFunc, Type: call}, top,
		&btf.Var{Name: "top", Type: top, Linkage: btf.GlobalVar},
		&btf.Enum{Name: "color", Size: 4, Values: []btf.EnumValue{{Name: "RED", Value: 7}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// text returns the types of BTF, a line each, and their members.
func text(t *testing.T, raw []byte) (list []string) {
	t.Helper()
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for typ, err := range spec.All() {
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := typ.(*btf.Struct); ok {
			list = append(list, fmt.Sprintf("struct %s %d", s.Name, s.Size))
			for _, m := range s.Members {
				list = append(list, fmt.Sprintf(" %s at %d: %v", m.Name, m.Offset, target(m.Type)))
			}
		} else if typ.TypeName() != "" {
			list = append(list, fmt.Sprintf("%T %s", typ, typ.TypeName()))
		}
	}
	return list
}

// target is what a pointer points to, as text.
func target(t btf.Type) string {
	p, ok := t.(*btf.Pointer)
	if !ok {
		return t.TypeName()
	}
	u := btf.UnderlyingType(p.Target)
	if f, ok := u.(*btf.Fwd); ok {
		return fmt.Sprintf("*%s %s;", f.Kind, f.Name)
	}
	return fmt.Sprintf("*%T %s", u, u.TypeName())
}

// TestWhole: all members are there. What pointers lead to is there if the member is named, and
// declared if not.
func TestWhole(t *testing.T) {
	small, err := Minimal(sample(t), &Needs{Types: []string{"top", "nosuch"}, Members: []string{"near"}, Whole: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"struct top 48", " near at 0: **btf.Struct near", " far at 64: *struct far;",
		" either at 128: *union either;", " call at 192: **btf.Void ", " number at 256: **btf.Int int",
		" inside at 320: inside", "struct near 4", " y at 0: int", "*btf.Int int", "struct inside 4",
		" z at 0: int", "*btf.Fwd far", "*btf.Fwd either",
	}
	got := text(t, small)
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("it has\n%q\nwant\n%q", got, want)
	}
}

// TestRoots: a name of a type, a function and a variable are three things.
func TestRoots(t *testing.T) {
	for _, c := range []struct {
		need Needs
		want string
	}{
		{Needs{Types: []string{"far"}}, `["struct far 4"]`},
		{Needs{Funcs: []string{"far"}}, `["*btf.Func far" "*btf.Int int" "struct far 4"]`},
		{Needs{Vars: []string{"far"}}, `[]`},
		{Needs{Vars: []string{"top"}}, `["*btf.Var top" "struct top 48"]`},
		{Needs{Enumerators: []string{"RED", "far"}}, `["*btf.Enum color"]`},
		{Needs{Types: []string{"RED", ""}}, `[]`},
	} {
		small, err := Minimal(sample(t), &c.need)
		if err != nil {
			t.Fatal(err)
		}
		got := text(t, small)
		slices.Sort(got)
		if fmt.Sprintf("%q", got) != c.want {
			t.Errorf("%+v: %q, want %s", c.need, got, c.want)
		}
	}
}

// TestFind: the index has each name that can be looked up, and each type of one name.
func TestFind(t *testing.T) {
	r, err := New(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"far": 2, "top": 2, "int": 1, "color": 1, "RED": 0, "": 0} {
		if got := r.Find(name); len(got) != want || !slices.IsSorted(got) {
			t.Errorf("%q: types %d, want %d", name, got, want)
		}
	}
}

// TestFindAll: a few names are found without an index, the same types as with it.
func TestFindAll(t *testing.T) {
	r, err := New(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]string{
		{"far"}, {"far", "top", "int", "color", "RED", ""}, {"to", "topp", "t"}, nil,
	} {
		var want, got []uint32
		for _, name := range list {
			want = append(want, (&Blob{Strings: r.Strings, At: r.At, order: r.order, types: r.types}).Find(name)...)
		}
		r.findAll(list, false, func(id uint32) { got = append(got, id) })
		slices.Sort(want)
		if slices.Sort(got); !slices.Equal(got, want) || r.names.Load() != nil {
			t.Errorf("%q: types %d, want %d; an index: %v", list, got, want, r.names.Load() != nil)
		}
	}
	r.findAll([]string{"far"}, true, func(uint32) {})
	if r.names.Load() == nil {
		t.Error("no index for who comes back")
	}
}
