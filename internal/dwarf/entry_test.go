package dwarf

import (
	"context"
	godwarf "debug/dwarf"
	"debug/elf"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elffile"
)

// typesSource has types of all kinds, and functions that have them.
const typesSource = `
struct flex { int n; int z[0]; int m[3][4]; unsigned f : 3, g : 9; long long h : 40; char tail[]; };
union u { long b; struct { short s : 3; int t : 12; } c; };
enum color { RED = -1, GREEN, BIG = 0x7fffffff };
enum wide { WIDE = 0x123456789abLL };
typedef struct node { struct node *next; const char *const *names; void (*call)(int, ...); } node;
double _Complex z(union u x, volatile int *restrict p, enum color c, enum wide w) { return *p + c + w + x.b; }
node *walk(struct flex *f, node n, float x, _Bool b, unsigned char v[]) { return n.next; }
int main(void) { return 0; }
`

var typesArgs = [][]string{
	{"-gdwarf-2", "-gstrict-dwarf"},
	{"-gdwarf-3"},
	{"-gdwarf-4"},
	{"-gdwarf-5"},
	{"-gdwarf-5", "-gdwarf64"},
	{"-g", "-gz=zlib"},
}

// open returns what this package and debug/dwarf read of a file.
func open(t *testing.T, name string) (*Data, *godwarf.Data) {
	t.Helper()
	f, err := elffile.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	d, err := New(f, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	e, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	ref, err := e.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	return d, ref
}

// TestEntries compares every entry with debug/dwarf's.
func TestEntries(t *testing.T) {
	for _, args := range typesArgs {
		t.Run(strings.Join(args, "_"), func(t *testing.T) {
			d, ref := open(t, compileSource(t, "prog.c", typesSource, args...))
			n := 0
			for r := ref.Reader(); ; n++ {
				want, err := r.Next()
				if err != nil || want == nil {
					break
				}
				if want.Tag == 0 {
					continue
				}
				off := uint64(want.Offset)
				var e Entry
				if err := e.Read(Ref{d.unitOf(off), off}); err != nil {
					t.Fatalf("%#x: %v", off, err)
				}
				if e.Tag != uint32(want.Tag) || e.Children != want.Children {
					t.Fatalf("%#x: tag %#x, children %v; want %+v", off, e.Tag, e.Children, want)
				}
				for i, a := range attrs {
					if a != 0 {
						sameValue(t, &e, a, want.Val(godwarf.Attr(i)))
					}
				}
			}
			if n < 50 {
				t.Errorf("%d entries", n)
			}
		})
	}
}

// sameValue compares an attribute with what debug/dwarf reads.
func sameValue(t *testing.T, e *Entry, a Attr, want any) {
	t.Helper()
	var got any
	n, isInt := e.Int(a)
	r, isRef := e.Link(a)
	switch want.(type) {
	case int64:
		if got = nil; isInt {
			got = n
		}
	case string:
		got = e.Text(a)
	case bool:
		got = e.Flag(a)
	case godwarf.Offset:
		if isRef {
			got = godwarf.Offset(r.off)
		}
	case uint64:
		got, _ = e.u.addr(e.values[a])
	case nil:
		if e.Has(a) {
			got = a
		}
	default:
		return // a block
	}
	if got != want {
		t.Errorf("%#x: attribute %d is %v, want %v", e.off, a, got, want)
	}
}

// TestFunctionAt finds the functions, their parameters, and where members are.
func TestFunctionAt(t *testing.T) {
	for _, args := range typesArgs {
		t.Run(strings.Join(args, "_"), func(t *testing.T) {
			name := compileSource(t, "prog.c", typesSource, args...)
			d, _ := open(t, name)
			var fn, e Entry
			at := addresses(t, name, "walk")[0]
			if err := d.FunctionAt(at, &fn); err != nil || fn.Text(Name) != "walk" {
				t.Fatalf("%v, %q", err, fn.Text(Name))
			}
			if err := d.FunctionAt(at+1, &e); err == nil {
				t.Errorf("%q begins inside of walk", e.Text(Name))
			}
			var params []string
			for in := fn.Inside(); ; {
				ok, err := in.Next(&e, TagFormalParameter)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				params = append(params, e.Text(Name))
			}
			if got := fmt.Sprint(params); got != "[f n x b v]" {
				t.Errorf("parameters %s", got)
			}
			var members []string
			for _, e := range d.entriesOf(t, TagMember) {
				m, err := e.Member()
				if err != nil {
					t.Fatal(err)
				}
				members = append(members, fmt.Sprint(e.Text(Name), m))
			}
			all := strings.Join(members, "")
			for _, want := range []string{"n{0 0 0}", " 416 3}", " 448 40}", "call{16 0 0}"} { // f is at bit 416, h at 448
				if !strings.Contains(all, want) {
					t.Errorf("no %s in %s", want, all)
				}
			}
			var dims []string
			for _, e := range d.entriesOf(t, TagArrayType) {
				n, err := e.Dimensions()
				if err != nil {
					t.Fatal(err)
				}
				dims = append(dims, fmt.Sprint(n))
			}
			if !slices.Contains(dims, "[3 4]") {
				t.Errorf("no array of 3 by 4 in %v", dims)
			}
		})
	}
}

// entriesOf returns the entries with a tag.
func (d *Data) entriesOf(t *testing.T, tag uint32) (out []Entry) {
	t.Helper()
	for _, u := range d.units {
		var e Entry
		for off := u.die; off < u.end; off = e.end {
			if err := e.Read(Ref{u, off}); err != nil {
				t.Fatal(err)
			}
			if e.Tag == tag {
				out = append(out, e)
			}
		}
	}
	return out
}

// TestFarConst: an enumerator that no other is like may have its value with its shape,
// of more bits than there is room for.
func TestFarConst(t *testing.T) {
	d := &Data{
		abbrev: []byte{1, 0x28, 0, 0x1c, 0x21, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0, 0, 0},
		info:   []byte{8, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 1}, abbrevTables: map[abbrevKey]*abbrevTable{},
	}
	d.index()
	var e Entry
	if err := e.Read(Ref{d.units[0], d.units[0].die}); err != nil {
		t.Fatal(err)
	}
	if n, ok := e.Int(ConstValue); !ok || n != 1<<40 {
		t.Errorf("got %#x, %v", n, ok)
	}
}

// TestRows compares all rows of a program with debug/dwarf's.
func TestRows(t *testing.T) {
	for _, args := range typesArgs {
		t.Run(strings.Join(args, "_"), func(t *testing.T) {
			d, ref := open(t, compile(t, args...))
			var want []string
			for r := ref.Reader(); ; r.SkipChildren() {
				unit, err := r.Next()
				if err != nil || unit == nil {
					break
				}
				lines, err := ref.LineReader(unit)
				if err != nil || lines == nil {
					continue
				}
				for e := (godwarf.LineEntry{}); lines.Next(&e) == nil; {
					r := Row{Addr: e.Address}
					if !e.EndSequence {
						r = Row{e.Address, e.Line, e.Column, e.IsStmt, e.File != nil && path.Base(e.File.Name) == "prog.c"}
					}
					want = append(want, fmt.Sprint(r))
				}
			}
			var got []string
			asked := 0
			wanted := func(f SourceFile) (bool, error) {
				asked++
				is, err := f.Is("prog.c")
				if string(f.Base()) != "prog.c" && is {
					t.Errorf("%s is prog.c", f.Base())
				}
				return is, err
			}
			err := d.Rows(context.Background(), wanted, func(r Row) error {
				got = append(got, fmt.Sprint(r))
				return nil
			})
			if err != nil || !slices.Equal(got, want) || len(got) < 20 || asked == 0 {
				t.Errorf("%v\n got %s\nwant %s", err, got, want)
			}
		})
	}
}
