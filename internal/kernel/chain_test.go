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

// TestGate: a program has the function for ids once, whether it had it before or not, and what
// it asks itself stays as it is.
func TestGate(t *testing.T) {
	ns := &PIDNamespace{Device: 1, Inode: 2}
	asks := asm.Instructions{asm.FnGetCurrentPidTgid.Call().WithSymbol("main"), asm.Mov.Imm(asm.R0, 0), asm.Return()}
	for name, c := range map[string]struct {
		ins  asm.Instructions
		ns   *PIDNamespace
		want int // functions
	}{
		"has it": {ns.OwnIDs(asks, false), ns, 1}, "has it not": {asks, ns, 1}, "initial": {asks, nil, 0},
	} {
		out, err := Gate(c.ins, Gated{State: 3, PIDs: []int{7, 8}, Namespace: c.ns, UserIP: 128}, 0)
		if err != nil {
			t.Fatal(err)
		}
		functions, pids, ips := 0, 0, 0
		for i := range out {
			switch {
			case out[i].Symbol() == ownIDs:
				functions++
			case out[i].Reference() == "gate.own":
				pids++
			case out[i].OpCode == asm.LoadMem(asm.R2, asm.R6, 128, asm.DWord).OpCode && out[i].Offset == 128:
				ips++
			}
		}
		if functions != c.want || pids != 2 || ips != 1 || out[0].Symbol() != "main" {
			t.Errorf("%s: %d functions, %d processes, %d instruction pointers:\n%v", name, functions, pids, ips, out)
		}
	}
	if _, err := Gate(nil, Gated{}, 0); err == nil {
		t.Error("no instructions: no error")
	}
}
