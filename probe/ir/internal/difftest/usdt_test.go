package difftest

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"hash/fnv"
	"os"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/interp"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/usdt"
)

// anyMemory has bytes at every address. They depend on the address.
type anyMemory struct{}

func (anyMemory) ReadMemory(dst []byte, addr uint64) error {
	for i := range dst {
		h := fnv.New32a()
		_ = binary.Write(h, binary.LittleEndian, addr+uint64(i))
		dst[i] = byte(h.Sum32())
	}
	return nil
}

// TestOperands evaluates operands of real programs as the compiler sees them,
// in the interpreter, and compares with package usdt's own evaluation.
func TestOperands(t *testing.T) {
	for _, m := range []struct {
		arch    string
		machine elf.Machine
		file    string
		last    int
	}{
		{"amd64", elf.EM_X86_64, "testdata/operands-amd64.txt", stack.AMD64RIP},
		{"arm64", elf.EM_AARCH64, "testdata/operands-arm64.txt", stack.ARM64PC},
	} {
		regs := stack.Regs{Machine: m.machine}
		ctx := make([]byte, 512)
		for n := 0; n <= m.last; n++ {
			v := uint64(n+1)*0x9e3779b97f4a7c15 ^ 0x80
			regs.Set(n, v)
			off, ok := check.PtRegs(m.arch, n)
			if !ok {
				t.Fatalf("%s: register %d", m.arch, n)
			}
			binary.LittleEndian.PutUint64(ctx[off:], v)
		}
		f, err := os.Open(m.file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		n := 0
		for sc := bufio.NewScanner(f); sc.Scan(); {
			args, err := usdt.ParseArgs(m.machine, sc.Text())
			if err != nil {
				t.Errorf("%s: %v", sc.Text(), err)
			}
			for i := range args {
				if testOperand(t, m.arch, &args[i], &regs, ctx) {
					n++
				}
			}
		}
		if n < 100 {
			t.Errorf("%s: only %d operands could be evaluated", m.arch, n)
		}
	}
}

func testOperand(t *testing.T, arch string, a *usdt.Arg, regs *stack.Regs, ctx []byte) bool {
	want, evalErr := a.Eval(regs, anyMemory{}, nil)
	plan := &probe.Plan{Arch: arch, Kernel: "6.1.0", Programs: []probe.ProgramPlan{{
		Name: "p0", Type: ebpf.Kprobe, Context: probe.ContextPtRegs, UserRegs: true, Method: probe.MethodPerfLink,
		Args:  []probe.Arg{{Name: "a", Loc: probe.Location{Kind: probe.LocationUSDT, Operand: a, User: true}}},
		Sites: []probe.Site{{Target: probe.USDT{}}},
	}}}
	out := &ir.Map{Name: "out", Kind: ir.MapArray, Value: ir.Uint64Type()}
	p := one(&ir.Stmt{Op: ir.StmtSet, Map: out, X: &ir.Expr{Op: ir.OpArg}})
	in, err := interp.New(p, plan, 0)
	if err != nil {
		if evalErr == nil && !a.Float {
			t.Errorf("%s: %v", a.Text, err)
		}
		return false
	}
	if _, err := bpf.Compile(p, plan); err != nil {
		t.Errorf("%s: %v", a.Text, err)
	}
	m := &interp.Machine{Context: ctx, User: anyMemory{}}
	if err := in.Run(m); err != nil {
		t.Fatal(err)
	}
	got := binary.LittleEndian.Uint64(m.Maps[out]["\x00\x00\x00\x00"])
	if evalErr != nil || got != want.Bits {
		t.Errorf("%s: %#x, package usdt says %#x, %v", a.Text, got, want.Bits, evalErr)
	}
	return true
}
