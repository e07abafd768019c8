package kernel

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/testenv"
)

// TestLoadTracing loads what every kernel has: the target is what differs.
func TestLoadTracing(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF)
	types, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	entry := btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 0), &btf.Func{
		Name: "entry", Linkage: btf.GlobalFunc,
		Type: &btf.FuncProto{
			Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
			Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Void{}}}},
		},
	})
	for _, first := range []asm.Instruction{asm.Mov.Imm(asm.R0, 0), entry} {
		p, err := LoadTracing(&ebpf.ProgramSpec{
			Name: "two words", Type: ebpf.RawTracepoint, License: "GPL", Instructions: asm.Instructions{first, asm.Return()},
		}, types, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		info, err := p.Info()
		if err != nil || info.Name != "twowords" || info.Type != ebpf.RawTracepoint {
			t.Errorf("loaded %+v: %v", info, err)
		}
		p.Close()
	}
	_, err = LoadTracing(&ebpf.ProgramSpec{
		Type: ebpf.RawTracepoint, License: "GPL",
		Instructions: asm.Instructions{asm.LoadMem(asm.R0, asm.R1, 4096, asm.DWord), asm.Return()},
	}, types, 0, 0)
	var refused *ebpf.VerifierError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "context access") {
		t.Errorf("%v, want what the verifier says", err)
	}
}
