package kernel

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
)

// TestChain: what stays where it is, and what becomes of exits.
func TestChain(t *testing.T) {
	ins := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1).WithSymbol("main"),
		asm.StoreImm(asm.RFP, -20, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -100),
		asm.JEq.Imm(asm.R1, 0, "out"),
		asm.Call.Label("other"),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 7).WithSymbol("other"),
		asm.Return(),
	}
	for _, budget := range []uint64{0, 5, 1 << 63} {
		out, err := Chain(ins, 3, 2, 4, budget, 0)
		if err != nil {
			t.Fatal(err)
		}
		if out[0].Symbol() != "main" || out[0].Offset != -112 { // below -100, a multiple of 8
			t.Errorf("begins with %v", out[0])
		}
		exits, calls, again := 0, 0, 0
		for i := range out {
			switch {
			case out[i].OpCode.JumpOp() == asm.Exit:
				exits++
			case out[i].IsBuiltinCall() && asm.BuiltinFunc(out[i].Constant) == asm.FnTailCall:
				calls++
			}
			if out[i].Symbol() == "main" {
				again++
			}
		}
		if exits != 2 || calls != ChainSlots-3 || again != 1 {
			t.Errorf("%d exits, %d tail calls, main %d times:\n%v", exits, calls, again, out)
		}
	}
	if ins[7].OpCode.JumpOp() != asm.Exit || ins[0].Symbol() != "main" {
		t.Error("the original has changed")
	}
}

func TestChainRefuses(t *testing.T) {
	if _, err := Chain(nil, 1, 0, 2, 0, 0); err == nil {
		t.Error("no instructions: no error")
	}
	full := asm.Instructions{asm.StoreMem(asm.RFP, -512, asm.R1, asm.DWord), asm.Mov.Imm(asm.R0, 0), asm.Return()}
	if _, err := Chain(full, 1, 0, 2, 0, 0); err == nil || !strings.Contains(err.Error(), "stack") {
		t.Errorf("a full stack: %v", err)
	}
}
