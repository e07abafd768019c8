package usdt_test

import (
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/usdt"
)

// The types of package stack are what Eval is made for.
var (
	_ usdt.Registers = (*stack.Regs)(nil)
	_ usdt.Memory    = stack.Memory(nil)
)

// regs are registers by number.
type regs map[int]uint64

func (r regs) Reg(n int) (uint64, bool) {
	v, ok := r[n]
	return v, ok
}

// page is one mapped page at 0x1000, filled with its addresses' low bytes; a
// byte outside of it is a fault.
type page struct{}

func (page) ReadMemory(dst []byte, addr uint64) error {
	for i := range dst {
		at := addr + uint64(i)
		if at < 0x1000 || at >= 0x2000 {
			return fmt.Errorf("fault at %#x", at)
		}
		dst[i] = byte(at)
	}
	return nil
}

type symbols map[string]uint64

func (s symbols) SymbolAddress(name string) (uint64, bool) {
	v, ok := s[name]
	return v, ok
}

func one(t *testing.T, machine elf.Machine, text string) usdt.Arg {
	t.Helper()
	args, err := usdt.ParseArgs(machine, text)
	if err != nil || len(args) != 1 {
		t.Fatalf("%q: %v, %v", text, args, err)
	}
	return args[0]
}

func TestEval(t *testing.T) {
	r := regs{0: 0x8877665544332211, 1: 0x1000, 2: 4, 3: 0xfffffffffffffffc, 5: 0xffffffff_ffffff80, 7: 0x1ff8, 32: math.Float64bits(2.5), 58: 0x1100}
	syms := symbols{"counter": 0x1010, "tls": 4}
	tests := []struct {
		machine elf.Machine
		text    string
		want    string
	}{
		{elf.EM_X86_64, "8@%rax", "9833440827789222417"},
		{elf.EM_X86_64, "-8@%rax", "-8613303245920329199"},
		{elf.EM_X86_64, "4@%rax", "1144201745"},
		{elf.EM_X86_64, "2@%eax", "8721"},
		{elf.EM_X86_64, "1@%al", "17"},
		{elf.EM_X86_64, "1@%ah", "34"},
		{elf.EM_X86_64, "8@%eax", "9833440827789222417"}, // the size governs
		{elf.EM_X86_64, "-1@%dil", "-128"},
		{elf.EM_X86_64, "1@%dil", "128"},
		{elf.EM_X86_64, "-4@%edi", "-128"},
		{elf.EM_X86_64, "-4@$-5", "-5"},
		{elf.EM_X86_64, "4@$-5", "4294967291"},
		{elf.EM_X86_64, "1@$257", "1"},
		{elf.EM_X86_64, "4f@$0x3fc00000", "1.5"},
		{elf.EM_X86_64, "8f@$0x4004000000000000", "2.5"},
		{elf.EM_X86_64, "4f@%edi", "NaN"},
		{elf.EM_X86_64, "8f@%xmm15", "2.5"}, // these Registers know it
		{elf.EM_X86_64, "1@(%rdx)", "0"},
		{elf.EM_X86_64, "1@5(%rdx)", "5"},
		{elf.EM_X86_64, "2@(%rdx,%rcx,4)", "4368"},
		{elf.EM_X86_64, "4@(%rdx,%rcx)", "117835012"},
		{elf.EM_X86_64, "1@8(%rdx,%rbx)", "4"},
		{elf.EM_X86_64, "-1@0xf0(%rdx)", "-16"},
		{elf.EM_X86_64, "8@7(%rsp)", "fault at 0x2000"},
		{elf.EM_X86_64, "1@7(%rsp)", "255"}, // the last byte of the page
		{elf.EM_X86_64, "2@6(%rsp)", "65534"},
		{elf.EM_X86_64, "4@4(%rsp)", "4294901244"},
		{elf.EM_X86_64, "8@(%rsp)", "18446460386757245432"},
		{elf.EM_X86_64, "1@counter(%rip)", "16"},
		{elf.EM_X86_64, "1@counter+1(%rip)", "17"},
		{elf.EM_X86_64, "1@counter(,%rcx,8)", "48"},
		{elf.EM_X86_64, "8@$counter", "4112"},
		{elf.EM_X86_64, "8@$counter+2", "4114"},
		{elf.EM_X86_64, "8@counter@GOTPCREL(%rip)", "4112"},
		{elf.EM_X86_64, "1@%fs:2", "2"},
		{elf.EM_X86_64, "1@%fs:(%rcx)", "4"},
		{elf.EM_X86_64, "1@%gs:2", "address is relative to the thread pointer"},
		{elf.EM_X86_64, "8@nosuch(%rip)", "symbol address is not known"},
		{elf.EM_X86_64, "8@.LC0(%rip)", "label is not in the linked file"},
		{elf.EM_X86_64, "8@%fs:tls@tpoff", "thread-local symbol of a shared library"},
		{elf.EM_X86_64, "8@tls@gottpoff(%rip)", "thread-local symbol of a shared library"},
		{elf.EM_X86_64, "8f@%xmm1", "value is in a vector register"},
		{elf.EM_X86_64, "8@%rsi", "register 4 is not known"},
		{elf.EM_X86_64, "8@(%rsi)", "register 4 is not known"},
		{elf.EM_X86_64, "8@(%rdx,%rsi)", "register 4 is not known"},
		{elf.EM_X86_64, "16@(%rdx)", "value has no register's size"},
		{elf.EM_X86_64, "2@%es", "register is not visible to probes"},
		{elf.EM_386, "4@(%ecx,%edx,4)", "319951120"}, // ecx is 1, edx 2
		{elf.EM_386, "4@counter@GOTOFF(%ebx)", "319951120"},
		{elf.EM_386, "1@%fs:2", "address is relative to the thread pointer"},
		{elf.EM_AARCH64, "-4@x5", "-128"},
		{elf.EM_AARCH64, "1@[x1, 3]", "3"},
		{elf.EM_AARCH64, "1@[x1, x2, lsl 3]", "32"},
		{elf.EM_AARCH64, "1@[x1, w2, sxtw 2]", "16"},
		{elf.EM_AARCH64, "1@[x7, w3, sxtw]", "244"},
		{elf.EM_AARCH64, "1@[x1, #:lo12:counter]", "16"},
		{elf.EM_AARCH64, "8@counter", "4112"},
		{elf.EM_AARCH64, "8f@1.5e+0", "1.5"},
		{elf.EM_AARCH64, "4f@-1.5e+0", "-1.5"},
		{elf.EM_AARCH64, "8@xzr", "0"},
		{elf.EM_ARM, "1@[r1, -r2]", "fault at 0xffc"},
		{elf.EM_RISCV, "1@%lo(counter)(a1)", "register 11 is not known"},
		{elf.EM_RISCV, "1@%lo(counter)(ra)", "16"},
		{elf.EM_S390, "4@4(%r1)", "67438087"},
		{elf.EM_S390, "2@4(%r2,%r1)", "2057"},
		{elf.EM_PPC64, "4@4(1)", "117835012"},
	}
	for _, test := range tests {
		v, err := one(t, test.machine, test.text).Eval(r, page{}, syms)
		got := v.String()
		if err != nil {
			var unreadable *usdt.UnreadableError
			if !errors.As(err, &unreadable) {
				t.Errorf("%s: error is a %T", test.text, err)
			}
			got = err.Error()[len("usdt argument "+test.text+": "):]
		}
		if got != test.want {
			t.Errorf("%v %s: got %s, want %s", test.machine, test.text, got, test.want)
		}
	}
}

func TestEvalWithoutAnything(t *testing.T) {
	for name, machine := range corpora {
		for _, line := range corpus(t, name) {
			args, _ := usdt.ParseArgs(machine, line)
			for _, a := range args {
				_, err := a.Eval(nil, nil, nil)
				if (err == nil) != (a.Kind == usdt.KindConst && a.Reason == usdt.ReasonNone) {
					t.Errorf("%s: %v", a, err)
				}
			}
		}
	}
}

func TestAddressOfStructure(t *testing.T) {
	got, err := one(t, elf.EM_X86_64, "24@16(%rdx)").Address(regs{1: 0x1000}, nil)
	if err != nil || got != 0x1010 {
		t.Errorf("got %#x, %v", got, err)
	}
	if _, err := one(t, elf.EM_X86_64, "16@%rdx").Address(regs{1: 0x1000}, nil); err == nil {
		t.Error("a register has an address")
	}
}

func TestEvalAllocatesNothing(t *testing.T) {
	var r usdt.Registers = &stack.Regs{Machine: elf.EM_X86_64, Have: 1<<33 - 1, R: [33]uint64{6: 0x1100}}
	reg, mem := one(t, elf.EM_X86_64, "-4@%edi"), one(t, elf.EM_X86_64, "-8@-16(%rbp)")
	var m usdt.Memory = page{}
	if n := testing.AllocsPerRun(100, func() { _, _ = reg.Eval(r, m, nil) }); n != 0 {
		t.Errorf("register: %v allocations", n)
	}
	// The buffer that an unknown Memory fills lives on the heap.
	if n := testing.AllocsPerRun(100, func() { _, _ = mem.Eval(r, m, nil) }); n > 1 {
		t.Errorf("memory: %v allocations", n)
	}
}
