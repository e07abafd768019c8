package probe

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/ctype"
	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/internal/usercode"
)

// typeShapes are the abbreviations of typeUnit: codes are these numbers.
var typeShapes = []byte{
	1, 0x11, 1, 0x11, 0x01, 0x12, 0x06, 0, 0, // unit: low_pc addr, high_pc data4
	2, 0x2e, 1, 0x11, 0x01, 0x12, 0x06, 0, 0, // function
	3, 0x05, 0, 0x49, 0x13, 0, 0, // parameter, and what follows: type ref4
	4, 0x0f, 0, 0x49, 0x13, 0, 0, // pointer
	5, 0x26, 0, 0x49, 0x13, 0, 0, // const
	6, 0x16, 0, 0x49, 0x13, 0x03, 0x08, 0, 0, // typedef: name string
	7, 0x01, 1, 0x49, 0x13, 0, 0, // array
	8, 0x21, 0, 0x37, 0x0b, 0, 0, // its dimension: count data1
	9, 0x13, 1, 0x0b, 0x0b, 0, 0, // structure: byte_size data1
	10, 0x0d, 0, 0x49, 0x13, 0, 0, // member
	11, 0x24, 0, 0x3e, 0x0b, 0x0b, 0x0b, 0, 0, // base type: encoding, byte_size
	0,
}

// typeUnit is DWARF of a function at the program's code that has parameters of these
// types, which entries describe: the first of them are at firstType.
func typeUnit(params []uint32, entries []byte) elfbuild.DWARF {
	o := binary.LittleEndian
	b := []byte{4, 0, 0, 0, 0, 0, 8, 1}
	b = o.AppendUint32(o.AppendUint64(b, elfbuild.ProgramText), 16)
	b = append(append(b, entries...), 2)
	b = o.AppendUint32(o.AppendUint64(b, elfbuild.ProgramText), 16)
	for _, p := range params {
		b = o.AppendUint32(append(b, 3), p)
	}
	b = append(b, 0, 0)
	return elfbuild.DWARF{Abbrev: typeShapes, Info: append(o.AppendUint32(nil, uint32(len(b))), b...)}
}

const firstType = 4 + 8 + 12

// ref is an entry of a shape that has nothing but a type.
func ref(code byte, to int) []byte { return binary.LittleEndian.AppendUint32([]byte{code}, uint32(to)) }

// Types that are made of themselves ended the program: the stack was full. Others took all
// memory, or would have taken forever.
func TestTypeBombs(t *testing.T) {
	testenv.Need(t, testenv.Long, testenv.Native)
	testenv.LimitMemory(t, 1<<30)
	member := func(to int) []byte { return ref(10, to) }
	chain := func(n int, one func(next int) []byte, last []byte) []byte {
		var b []byte
		for range n {
			b = append(b, one(firstType+len(b)+len(one(0)))...)
		}
		return append(b, last...)
	}
	structure := func(members ...[]byte) []byte { return append(append([]byte{9, 8}, slices.Concat(members...)...), 0) }
	char := []byte{11, 6, 1}
	symbol := elfbuild.SymbolTable{N: 1, Size: 16, Names: 1}
	for _, tt := range []struct {
		name    string
		entries []byte
		params  int // how many of the first type
		times   int // that the function is asked for, as if there were so many
		want    string
	}{
		{"plain", ref(4, firstType+5), 1, 1, "void *"},
		{"pointer", ref(4, firstType), 1, 1, ""},
		{"const", ref(5, firstType), 1, 1, ""},
		{"typedef", append(ref(6, firstType), "t\x00"...), 1, 1, ""},
		{"array", append(ref(7, firstType), 8, 4, 0), 1, 1, ""},
		{"structure", structure(member(firstType)), 1, 1, ""},
		{"two", append(ref(4, firstType+5), ref(5, firstType)...), 1, 1, ""},
		{"list", append(ref(4, firstType+5), structure(member(firstType))...), 1, 1, "struct {…} *"},
		{"named", append(ref(4, firstType+5), append(ref(6, firstType), "t\x00"...)...), 1, 1, "t *"},
		{"consts", chain(1<<20, func(next int) []byte { return ref(5, next) }, char), 1, 1, ""},
		{"pointers", chain(1<<20, func(next int) []byte { return ref(4, next) }, char), 1, 1, ""},
		{"structures", chain(1<<19, func(next int) []byte { return structure(member(next)) }, char), 1, 1, ""},
		{"list of structures", chain(1<<19, func(next int) []byte {
			return append(ref(4, next-8), structure(member(next))...) // the structure takes 8 bytes
		}, char), 1, 1, "struct {…} *"},
		{"dimensions", append(append(ref(7, firstType), slices.Repeat([]byte{8, 1}, 1<<20)...), 0), 1, 1, ""},
		{"members", append(structure(slices.Repeat(member(firstType+2+5<<20+1), 1<<20)), char...), 1, 1, ""},
		{"parts", chain(12, func(next int) []byte {
			return structure(slices.Repeat(member(next), 1000))
		}, structure()), 20, 1, ""},
		{"members of many functions", append(structure(slices.Repeat(member(firstType+2+5*1000+1), 1000)), char...), 100, 10_000, ""},
		{"parameters", char, 1 << 20, 1, ""},
		{"parameters of many functions", char, 1 << 12, 10_000, ""},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "-"), func(t *testing.T) {
			d := typeUnit(slices.Repeat([]uint32{firstType}, tt.params), tt.entries)
			image := elfbuild.Program(append(symbol.Sections(), d.Sections()...)...).Bytes()
			path := filepath.Join(t.TempDir(), "x")
			if err := os.WriteFile(path, image, 0o755); err != nil {
				t.Fatal(err)
			}
			env := NewEnv(&EnvOptions{Arch: "amd64", Release: "6.12.0-test", Features: probetest.Features()})
			target := mustParse(t, fmt.Sprintf("uprobe:%s:a*", path))
			f, err := elffile.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var plan *Plan
			mem, cpu := meter.Bounded(t, len(image), func() {
				plan, err = Resolve(env, []Target{target}, &Options{DWARF: true})
				types, abi := usercode.NewTypes(usercode.OpenDebug(f, &elffile.DebugFinder{})), abis["amd64"]
				for range tt.times - 1 {
					if sig, err := types.SignatureAt(elfbuild.ProgramText); err == nil {
						(&userFunction{sig: sig, abi: abi}).args()
					}
				}
			})
			if err != nil || len(plan.Programs) == 0 {
				t.Fatalf("%v: %v", plan, err)
			}
			args := plan.Programs[0].Args
			got := ""
			if len(args) > 0 && args[0].Type != nil {
				got = ctype.String(args[0].Type)
			}
			t.Logf("%d bytes of file: %d of memory, %v: %q %v", len(image), mem, cpu, got, len(plan.Programs))
			if tt.want != "" && got != tt.want {
				t.Errorf("the argument is of type %q, want %q", got, tt.want)
			}
		})
	}
}
