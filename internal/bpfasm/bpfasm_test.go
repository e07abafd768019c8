package bpfasm

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestLabels: jumps reach the instruction after their label, however many labels that has, and
// a map of a label's name is still the map.
func TestLabels(t *testing.T) {
	var a Assembler
	a.Add(asm.JEq.Imm(asm.R1, 0, "second"), asm.JEq.Imm(asm.R1, 1, "first"), asm.Mov.Imm(asm.R0, 7))
	a.Label("first")
	a.Label("second")
	a.Add()
	a.Label("third")
	a.Add(asm.Mov.Imm(asm.R0, 1), asm.LoadMapPtr(asm.R1, 3).WithReference("third"), asm.Ja.Label("third"))
	a.Label("end")
	a.Add(asm.Return().WithSymbol("own"))
	a.Insns[0] = a.Insns[0].WithSource(asm.Comment("kept"))
	insns := a.Finish()
	var references, symbols []string
	for _, in := range insns {
		references, symbols = append(references, in.Reference()), append(symbols, in.Symbol())
	}
	if want := []string{"first", "first", "", "", "third", "first", ""}; !slices.Equal(references, want) {
		t.Errorf("references %q, want %q", references, want)
	}
	if want := []string{"", "", "", "first", "", "", "own"}; !slices.Equal(symbols, want) {
		t.Errorf("symbols %q, want %q", symbols, want)
	}
	if insns[0].Source() == nil {
		t.Error("the first instruction's source is gone")
	}
	insns[4] = insns[4].WithReference("") // a map's descriptor
	var code bytes.Buffer
	if err := insns.Marshal(&code, binary.LittleEndian); err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint16{2, 1} {
		if got := binary.LittleEndian.Uint16(code.Bytes()[8*i+2:]); got != want {
			t.Errorf("jump %d skips %d instructions, want %d", i, got, want)
		}
	}
}

func TestUnique(t *testing.T) {
	var a Assembler
	if x, y := a.Unique("x"), a.Unique("x"); x == y || !strings.HasPrefix(x, "x") {
		t.Errorf("%q, %q", x, y)
	}
}

func TestLabelAtTheEnd(t *testing.T) {
	var a Assembler
	a.Add(asm.Ja.Label("out"), asm.Return())
	a.Label("out")
	err := a.Finish().Marshal(io.Discard, binary.LittleEndian)
	if err == nil || !strings.Contains(err.Error(), "out") {
		t.Error(err)
	}
}

// TestAtomicsAreNotAdditions: cilium/ebpf v0.22.0 encodes every atomic operation with the
// constant 0, an addition, unless the constant is set explicitly. Maxima were sums, and two
// programs used the same scratch area.
func TestAtomicsAreNotAdditions(t *testing.T) {
	for _, op := range []asm.AtomicOp{asm.Xchg, asm.CmpXchg} {
		var b bytes.Buffer
		if err := (asm.Instructions{Atomic(op, asm.R1, asm.R2, 8)}).Marshal(&b, binary.LittleEndian); err != nil {
			t.Fatal(err)
		}
		if imm := binary.LittleEndian.Uint32(b.Bytes()[4:]); imm != uint32(op>>8) {
			t.Errorf("%v is encoded with constant %#x", op, imm)
		}
	}
}
