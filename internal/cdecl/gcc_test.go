package cdecl_test

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/cdecl"
	"github.com/borescope/borescope/internal/testenv"
)

// compiled returns the structs and unions of a text in the compiler's layout. It reads DWARF,
// because the BTF of GCC 12 has the dimensions of arrays in reverse order, and the members
// after an unnamed bit field of an enum at 0.
func compiled(t *testing.T, compiler, text string) map[string]*dwarf.StructType {
	t.Helper()
	dir := t.TempDir()
	c, o := filepath.Join(dir, "x.c"), filepath.Join(dir, "x.o")
	if err := os.WriteFile(c, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := testenv.Command(t, compiler, "-w", "-gdwarf-5", "-fno-eliminate-unused-debug-types", "-c", "-o", o, c).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", compiler, err, out)
	}
	f, err := elf.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]*dwarf.StructType{}
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			return types
		}
		if e.Tag != dwarf.TagStructType && e.Tag != dwarf.TagUnionType {
			continue
		}
		typ, err := d.Type(e.Offset)
		if err != nil {
			t.Fatal(err)
		}
		if s := typ.(*dwarf.StructType); s.StructName != "" && !s.Incomplete {
			types[s.StructName] = s
		}
	}
}

// writer makes declarations up.
type writer struct {
	*rand.Rand
	strings.Builder
	names int
	types []string // that are complete
}

var basics = []string{
	"char", "signed char", "unsigned char", "short", "unsigned short int", "int", "unsigned", "long", "unsigned long long int",
	"_Bool", "float", "double", "long double", "void *", "__int128", "enum small", "enum large", "long long",
}

var fields = []string{
	"char", "unsigned char", "short", "unsigned short", "int", "unsigned int", "long", "unsigned long", "_Bool", "enum small",
	"enum large",
}

func (w *writer) pick(from []string) string { return from[w.Intn(len(from))] }

func (w *writer) chance(percent int) bool { return w.Intn(100) < percent }

func (w *writer) name() string {
	w.names++
	return fmt.Sprintf("m%d", w.names)
}

func (w *writer) aligned(percent int) string {
	if !w.chance(percent) {
		return ""
	}
	return fmt.Sprintf(" __attribute__((aligned(%d)))", 1<<w.Intn(6))
}

func (w *writer) bits(typ string) int {
	n := map[string]int{"char": 8, "unsigned char": 8, "short": 16, "unsigned short": 16, "_Bool": 1, "long": 64, "unsigned long": 64}[typ]
	switch {
	case typ == "enum large":
		n = 64
	case n == 0:
		n = 32
	}
	return 1 + w.Intn(n)
}

func (w *writer) member(depth int) {
	switch n := w.Intn(100); {
	case n < 40:
		typ := w.pick(fields)
		fmt.Fprintf(w, "%s %s : %d%s%s;\n", typ, w.name(), w.bits(typ), w.aligned(4), w.packed(6))
	case n < 45:
		fmt.Fprintf(w, "%s : 0;\n", w.pick(fields))
	case n < 50:
		typ := w.pick(fields)
		fmt.Fprintf(w, "%s : %d;\n", typ, w.bits(typ))
	case n < 58 && depth < 3:
		w.body(depth + 1)
		w.WriteString(";\n")
	case n < 64 && depth < 3:
		w.body(depth + 1)
		fmt.Fprintf(w, " %s[%d];\n", w.name(), w.Intn(4))
	case n < 72 && len(w.types) > 0:
		fmt.Fprintf(w, "%s %s%s;\n", w.pick(w.types), w.name(), w.packed(10))
	case n < 80:
		fmt.Fprintf(w, "%s %s[%d][%d];\n", w.pick(basics), w.name(), 1+w.Intn(3), 1+w.Intn(3))
	case n < 84:
		fmt.Fprintf(w, "int (*%s[%d])(int, struct later *);\n", w.name(), 1+w.Intn(3))
	default:
		fmt.Fprintf(w, "%s %s%s%s;\n", w.pick(basics), w.name(), w.aligned(10), w.packed(6))
	}
}

func (w *writer) packed(percent int) string {
	if w.chance(percent) {
		return " __attribute__((packed))"
	}
	return ""
}

func (w *writer) body(depth int) {
	w.WriteString(w.pick([]string{"struct", "struct", "struct", "union"}))
	w.members(depth)
}

func (w *writer) members(depth int) {
	w.WriteString(" {\n")
	for range 1 + w.Intn(8) {
		w.member(depth)
	}
	w.WriteString("}")
	w.WriteString(w.packed(20) + w.aligned(10))
}

// enum is one whose values need an integer of some size, with or without a sign, and a
// struct that shows which.
func (w *writer) enum(i int) {
	low, high := int64(-w.Intn(2)), uint64(1)<<w.Intn(64)
	if low < 0 {
		low, high = low<<w.Intn(63), max(high>>2, 1)
	}
	if high == 1<<31 {
		high++ // GCC has no value after the largest int, clang does
	}
	fmt.Fprintf(w, "enum e%d { E%d = %d, F%d = %dUL - %d, G%d }%s;\n", i, i, low, i, high, w.Intn(2), i, w.packed(50))
	fmt.Fprintf(w, "struct f%d { char c; enum e%d e; };\n", i, i)
}

// text is a number of declarations, each in one that shows its alignment.
func (w *writer) text(n int) string {
	w.WriteString("enum small { SMALL };\nenum large { LARGE = 1ULL << 40 };\n")
	w.WriteString("typedef int loose __attribute__((aligned(2)));\ntypedef char tight __attribute__((aligned(8)));\n")
	w.types = append(w.types, "loose", "tight")
	for i := range n {
		if w.chance(20) {
			w.enum(i)
		}
		kind := w.pick([]string{"struct", "struct", "union"})
		fmt.Fprintf(w, "%s s%d", kind, i)
		w.members(0)
		fmt.Fprintf(w, ";\nstruct w%d { char c; %s s%d s; };\n", i, kind, i)
		w.types = append(w.types, fmt.Sprintf("%s s%d", kind, i))
	}
	return w.String()
}

// TestGCC compares layouts with those of the C compilers that are here: that of this
// machine, and one for another.
func TestGCC(t *testing.T) {
	for _, c := range []struct{ arch, compiler string }{
		{"amd64", "x86_64-linux-gnu-gcc"},
		{"arm64", "aarch64-linux-gnu-gcc"},
		{"riscv64", "riscv64-linux-gnu-gcc"},
		{"ppc64le", "powerpc64le-linux-gnu-gcc"},
	} {
		t.Run(c.arch, func(t *testing.T) {
			testenv.Need(t, testenv.Tool(c.compiler))
			for seed := range int64(4) {
				w := &writer{Rand: rand.New(rand.NewSource(seed))}
				compareLayouts(t, c.compiler, c.arch, w.text(150), 150)
			}
		})
	}
}

func compareLayouts(t *testing.T, compiler, arch, text string, n int) {
	t.Helper()
	want := compiled(t, compiler, text)
	have, err := cdecl.Parse("random.h", []byte(text), &cdecl.Options{Arch: arch})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	compared := compareTypes(t, have, want, text)
	if compared < 2*n {
		t.Errorf("%d types were compared, of %d", compared, 2*n)
	}
}

// compareTypes compares those that both have, and returns how many.
func compareTypes(t *testing.T, have *cdecl.Decls, want map[string]*dwarf.StructType, text string) int {
	t.Helper()
	compared := 0
	for _, typ := range have.Types {
		w := want[typ.Name]
		if w == nil || w.Kind != typ.Kind.String() {
			continue
		}
		compared++
		if diff := differ(typ.Type, w, ""); diff != "" {
			t.Errorf("%v: %s: %s\n%s", typ.Pos, typ.Name, diff, declarationOf(text, typ.Name))
		}
	}
	return compared
}

func declarationOf(text, name string) string {
	_, s, _ := strings.Cut(text, " "+name+" {")
	s, _, _ = strings.Cut(s, "struct w")
	return s
}

// differ says in what the layout of two types differs, and "" if it does not.
func differ(have btf.Type, want dwarf.Type, path string) string {
	have = btf.UnderlyingType(have)
	for {
		switch w := want.(type) {
		case *dwarf.TypedefType:
			want = w.Type
			continue
		case *dwarf.QualType:
			want = w.Type
			continue
		}
		break
	}
	if a, ok := want.(*dwarf.ArrayType); ok && a.Count <= 0 {
		// So debug/dwarf has those of which it thinks that the next member is at their
		// place, as bit fields may seem to be. Where that is shows the size.
		h, ok := have.(*btf.Array)
		if !ok {
			return fmt.Sprintf("%s is %v, the compiler says %v", path, have, want)
		}
		return differ(h.Type, a.Type, path+"[]")
	}
	if size, err := btf.Sizeof(have); err != nil || int64(size) != max(want.Size(), 0) {
		return fmt.Sprintf("%s has %d bytes (%v), the compiler says %d", path, size, err, want.Size())
	}
	same := false
	switch want := want.(type) {
	case *dwarf.StructType:
		switch h := have.(type) {
		case *btf.Struct:
			return differMembers(h.Members, want.Field, path)
		case *btf.Union:
			return differMembers(h.Members, want.Field, path)
		}
	case *dwarf.ArrayType:
		if h, ok := have.(*btf.Array); ok && int64(h.Nelems) == want.Count {
			return differ(h.Type, want.Type, path+"[]")
		}
	case *dwarf.PtrType:
		_, same = have.(*btf.Pointer)
	case *dwarf.FloatType:
		_, same = have.(*btf.Float)
	case *dwarf.EnumType:
		_, same = have.(*btf.Enum)
	case *dwarf.BoolType:
		i, ok := have.(*btf.Int)
		same = ok && i.Encoding == btf.Bool
	case *dwarf.IntType, *dwarf.CharType:
		i, ok := have.(*btf.Int)
		same = ok && i.Encoding == btf.Signed && i.Name == want.Common().Name
	case *dwarf.UintType, *dwarf.UcharType:
		i, ok := have.(*btf.Int)
		same = ok && i.Encoding == btf.Unsigned && i.Name == want.Common().Name
	}
	if !same {
		return fmt.Sprintf("%s is %v, the compiler says %v", path, have, want)
	}
	return ""
}

func differMembers(have []btf.Member, want []*dwarf.StructField, path string) string {
	if len(have) != len(want) {
		return fmt.Sprintf("%s has %d members, the compiler says %d", path, len(have), len(want))
	}
	for i, h := range have {
		w := want[i]
		at := w.ByteOffset*8 + w.DataBitOffset
		if h.Name != w.Name || int64(h.Offset) != at || int64(h.BitfieldSize) != w.BitSize {
			return fmt.Sprintf("%s.%s is at bit %d with %d, the compiler says %s at %d with %d",
				path, h.Name, h.Offset, h.BitfieldSize, w.Name, at, w.BitSize)
		}
		if d := differ(h.Type, w.Type, path+"."+h.Name); d != "" {
			return d
		}
	}
	return ""
}
