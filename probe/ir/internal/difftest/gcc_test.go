package difftest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/typed"
	"github.com/borescope/borescope/probe/ir/interp"
)

// cExpr prints a checked expression as C, so that gcc computes it by C's rules with explicit
// casts. It is a third opinion, because interpreter and compiler may share a mistake.
func cExpr(e *typed.Node) string {
	arg := func(i int) string { return cExpr(e.Args[i]) }
	bin := func(op string) string { return "(" + cType(e.Type) + ")(" + arg(0) + " " + op + " " + arg(1) + ")" }
	switch e.Op {
	case ir.OpConst:
		return fmt.Sprintf("((%s)%#xull)", cType(e.Type), uint64(e.Int))
	case typed.Ctx:
		return fmt.Sprintf("((%s)a[%d])", cType(e.Type), e.Place.Off/8)
	case ir.OpCast:
		if e.Type.Kind == ir.KindBool {
			return "(" + arg(0) + " != 0)"
		}
		return "((" + cType(e.Type) + ")" + arg(0) + ")"
	case ir.OpAdd, ir.OpSub, ir.OpMul:
		// In unsigned 64 bits, where C defines overflow; the cast cuts it.
		return fmt.Sprintf("((%s)((unsigned long long)%s %s (unsigned long long)%s))", cType(e.Type), arg(0), e.Op, arg(1))
	case ir.OpAnd, ir.OpOr, ir.OpXor:
		return bin(e.Op.String())
	case ir.OpShl:
		return fmt.Sprintf("((%s)((unsigned long long)%s << ((unsigned long long)%s & %d)))", cType(e.Type), arg(0), arg(1), 8*e.Type.Size-1)
	case ir.OpShr:
		return fmt.Sprintf("((%s)(%s >> ((unsigned long long)%s & %d)))", cType(e.Type), arg(0), arg(1), 8*e.Type.Size-1)
	case ir.OpDiv, ir.OpMod:
		return cDivide(e, arg(0), arg(1))
	case ir.OpBswap:
		return fmt.Sprintf("((%s)__builtin_bswap%d(%s))", cType(e.Type), 8*e.Type.Size, arg(0))
	case ir.OpCond:
		return "(" + arg(0) + " ? " + arg(1) + " : " + arg(2) + ")"
	case ir.OpLNot:
		return "(!" + arg(0) + ")"
	}
	return "(" + arg(0) + " " + e.Op.String() + " " + arg(1) + ")"
}

// cDivide defines the cases that C leaves undefined as BPF defines them.
func cDivide(e *typed.Node, a, b string) string {
	t := cType(e.Type)
	zero, wrap := "0", "x"
	if e.Op == ir.OpMod {
		zero, wrap = "x", "0"
	}
	guard := ""
	if e.Type.Signed {
		guard = fmt.Sprintf("y == -1 && x == (%s)(1ull << %d) ? %s : ", t, 8*e.Type.Size-1, wrap)
	}
	return fmt.Sprintf("({ %s x = %s, y = %s; (%s)(y == 0 ? %s : %sx %s y); })", t, a, b, t, zero, guard, e.Op)
}

func cType(t ir.Type) string {
	if t.Kind == ir.KindBool {
		return "_Bool"
	}
	name := map[int]string{1: "char", 2: "short", 4: "int", 8: "long long"}[t.Size]
	if t.Signed {
		return "signed " + name
	}
	return "unsigned " + name
}

// TestArithmeticAgreesWithGCC compares the interpreter with gcc on random
// expressions. TestDifferential compares it with the compiler.
func TestArithmeticAgreesWithGCC(t *testing.T) {
	testenv.Need(t, testenv.Tool("gcc"))
	r := rand.New(rand.NewPCG(7, 7))
	var types []btf.Type
	for range 4 {
		types = append(types, argTypes...)
	}
	g := &randProg{r: r}
	for _, b := range types {
		ty, _ := check.FromBTF(b, false)
		g.args = append(g.args, ty)
	}
	plan := rawPlan("6.18.0", "amd64", types...)
	inputs := make([][]uint64, 16)
	for i := range inputs {
		for range types {
			inputs[i] = append(inputs[i], uint64(g.number()))
		}
	}
	const n = 400
	var src strings.Builder
	src.WriteString("#include <stdio.h>\ntypedef unsigned long long u64;\n")
	want := make([][]uint64, n)
	for i := range n {
		x := g.typed(g.intType(), 5)
		out := &ir.Map{Name: "out", Kind: ir.MapArray, Value: ir.Uint64Type()}
		p := &ir.Program{Name: "gcc", Actions: []ir.Action{{
			Target: probe.RawTracepoint{}, Body: []*ir.Stmt{{Op: ir.StmtSet, Map: out, X: x}},
		}}}
		in := interpret(t, p, plan)
		checked, err := check.Check(p, plan, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range inputs {
			m := &interp.Machine{}
			for _, a := range args {
				m.Context = binary.LittleEndian.AppendUint64(m.Context, a)
			}
			in.run(t, m)
			want[i] = append(want[i], binary.LittleEndian.Uint64(m.Maps[out]["\x00\x00\x00\x00"]))
		}
		fmt.Fprintf(&src, "static u64 f%d(const u64 *a) { return (u64)%s; }\n", i, cExpr(checked.Body[0].X))
	}
	compareGCC(t, src.String(), inputs, want)
}

func compareGCC(t *testing.T, src string, inputs [][]uint64, want [][]uint64) {
	var b strings.Builder
	b.WriteString(src + "static const u64 in[][32] = {\n")
	for _, args := range inputs {
		b.WriteString("{")
		for _, a := range args {
			fmt.Fprintf(&b, "%#xull,", a)
		}
		b.WriteString("},\n")
	}
	b.WriteString("};\nstatic u64 (*const fs[])(const u64 *) = {")
	for i := range want {
		fmt.Fprintf(&b, "f%d,", i)
	}
	fmt.Fprintf(&b, "};\nint main(void) { for (int i = 0; i < %d; i++) for (int j = 0; j < %d; j++) printf(\"%%llx\\n\", fs[i](in[j])); }\n",
		len(want), len(inputs))
	dir := t.TempDir()
	file, bin := filepath.Join(dir, "x.c"), filepath.Join(dir, "x")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := testenv.Command(t, "gcc", "-O0", "-w", "-fwrapv", "-o", bin, file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %.2000s", err, out)
	}
	out, err := testenv.Command(t, bin).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out))
	if len(lines) != len(want)*len(inputs) {
		t.Fatalf("%d results", len(lines))
	}
	for i := range want {
		for j := range inputs {
			var got uint64
			if _, err := fmt.Sscanf(lines[i*len(inputs)+j], "%x", &got); err != nil {
				t.Fatal(err)
			}
			if got != want[i][j] {
				t.Fatalf("gcc says %#x, the interpreter %#x, for %#x of\n%s", got, want[i][j], inputs[j],
					strings.Split(src, "\n")[i+2])
			}
		}
	}
}
