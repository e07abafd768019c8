package usdt_test

import (
	"debug/elf"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/borescope/borescope/usdt"
)

var full = flag.Bool("full", false, "build with all combinations of compiler options, not a sample")

// corpora are the distinct argument specifications of the probes in Debian
// packages, and of a generated program at many compiler options.
var corpora = map[string]elf.Machine{
	"amd64": elf.EM_X86_64, "gen-amd64": elf.EM_X86_64, "i386": elf.EM_386,
	"arm64": elf.EM_AARCH64, "gen-arm64": elf.EM_AARCH64, "armhf": elf.EM_ARM,
	"riscv64": elf.EM_RISCV, "ppc64el": elf.EM_PPC64, "s390x": elf.EM_S390,
}

func corpus(t testing.TB, name string) []string {
	b, err := os.ReadFile("testdata/args-" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

func TestCorpora(t *testing.T) {
	for name, machine := range corpora {
		t.Run(name, func(t *testing.T) {
			reasons := map[usdt.Reason]int{}
			lines := corpus(t, name)
			for _, line := range lines {
				args, err := usdt.ParseArgs(machine, line)
				if err != nil {
					t.Error(err)
					continue
				}
				texts := make([]string, len(args))
				for i, a := range args {
					texts[i] = a.String()
					reasons[a.Reason]++
					checkArg(t, a)
				}
				if got := strings.Join(texts, " "); got != line {
					t.Errorf("got  %q\nwant %q", got, line)
				}
			}
			t.Logf("%d specifications: %v", len(lines), reasons)
		})
	}
}

// checkArg asserts what holds for every argument.
func checkArg(t *testing.T, a usdt.Arg) {
	t.Helper()
	if a.Size <= 0 {
		t.Errorf("%s: size %d", a, a.Size)
	}
	switch a.Kind {
	case usdt.KindReg:
		if !a.Reg.Ok() {
			t.Errorf("%s: no register", a)
		}
	case usdt.KindMem, usdt.KindAddr:
		if !a.Addr.Base.Ok() && !a.Addr.Index.Ok() && a.Addr.Symbol == "" && a.Addr.Segment == usdt.SegmentNone {
			t.Errorf("%s: empty address", a)
		}
		if a.Addr.Index.Ok() != (a.Addr.Scale != 0) {
			t.Errorf("%s: scale %d", a, a.Addr.Scale)
		}
		if a.Addr.Symbol != "" && a.Reason == usdt.ReasonNone {
			t.Errorf("%s: readable without the symbol's address", a)
		}
	case usdt.KindUnknown:
		if a.Reason == usdt.ReasonNone {
			t.Errorf("%s: unknown without a reason", a)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	tests := []struct {
		machine elf.Machine
		text    string
		column  int
		before  int // arguments in front of the error
	}{
		{elf.EM_X86_64, "8@", 3, 0},
		{elf.EM_X86_64, "8@%rxx", 3, 0},
		{elf.EM_X86_64, "8@%rdi 4@%eex", 10, 1},
		{elf.EM_X86_64, "8@%rdi,8@%rsi", 7, 0},
		{elf.EM_X86_64, "8@(%rax", 8, 0},
		{elf.EM_X86_64, "8@()", 4, 0},
		{elf.EM_X86_64, "8@(%al)", 4, 0},
		{elf.EM_X86_64, "8@(%rax,%rcx,3)", 14, 0},
		{elf.EM_X86_64, "8@(%rax,%xmm1,8)", 9, 0},
		{elf.EM_X86_64, "8@$", 4, 0},
		{elf.EM_X86_64, "8@$0x", 4, 0},
		{elf.EM_X86_64, "8@$18446744073709551616", 4, 0},
		{elf.EM_X86_64, "8@$-9223372036854775809", 4, 0},
		{elf.EM_X86_64, "8@$1.5", 4, 0},
		{elf.EM_X86_64, "0@%rdi", 1, 0},
		{elf.EM_X86_64, "4294967288@%rdi", 1, 0},
		{elf.EM_X86_64, "17f@%xmm0", 1, 0},
		{elf.EM_X86_64, "f@%xmm0", 3, 0},
		{elf.EM_X86_64, "@%rdi", 1, 0},
		{elf.EM_X86_64, "-@%rdi", 2, 0},
		{elf.EM_X86_64, "8@5", 3, 0},
		{elf.EM_X86_64, "8@a-b(%rip)", 4, 0},
		{elf.EM_X86_64, "8@a@b(%rip)", 5, 0},
		{elf.EM_X86_64, "8@%rsp:8(%rax)", 3, 0},
		{elf.EM_X86_64, "8@\"a(%rip)", 3, 0},
		{elf.EM_386, "4@%rax", 3, 0},
		{elf.EM_386, "4@%r8d", 3, 0},
		{elf.EM_AARCH64, "8@[x0", 6, 0},
		{elf.EM_AARCH64, "8@[x0, 8", 9, 0},
		{elf.EM_AARCH64, "8@[x31]", 4, 0},
		{elf.EM_AARCH64, "8@[x0, x1, ror 3]", 12, 0},
		{elf.EM_AARCH64, "8@[x0, x1, lsl 9]", 16, 0},
		{elf.EM_AARCH64, "8@[x0, #:foo:sym]", 9, 0},
		{elf.EM_AARCH64, "8@%rdi", 3, 0},
		{elf.EM_ARM, "4@[r16]", 4, 0},
		{elf.EM_RISCV, "8@-20(q0)", 7, 0},
		{elf.EM_RISCV, "8@%hi(sym)", 3, 0},
		{elf.EM_PPC64, "8@99(99)", 6, 0},
		{elf.EM_S390, "8@%r16", 3, 0},
		{elf.EM_LOONGARCH, "8@$r32", 3, 0},
		{elf.EM_X86_64, strings.Repeat("8@%rdi ", 12) + "8@%rdi", 85, 12},
	}
	for _, test := range tests {
		args, err := usdt.ParseArgs(test.machine, test.text)
		var syntax *usdt.SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%v %q: %v, %v", test.machine, test.text, args, err)
			continue
		}
		if syntax.Column != test.column || len(args) != test.before {
			t.Errorf("%v %q: %d arguments, %v; want %d and column %d", test.machine, test.text, len(args), err, test.before, test.column)
		}
	}
	if _, err := usdt.ParseArgs(elf.EM_SPARCV9, "8@%o0"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("sparc: %v", err)
	}
	for _, none := range []string{"", ":", ":8@%rdi", " "} {
		if args, err := usdt.ParseArgs(elf.EM_X86_64, none); err != nil || len(args) != 0 {
			t.Errorf("%q: %v, %v", none, args, err)
		}
	}
}

// TestOperands pins what operands mean: the neutral notation has DWARF numbers.
func TestOperands(t *testing.T) {
	tests := []struct {
		machine elf.Machine
		text    string
		want    string
		reason  usdt.Reason
	}{
		{elf.EM_X86_64, "8@%rdi", "r5", 0},
		{elf.EM_X86_64, "%edi", "r5", 0},
		{elf.EM_X86_64, "8(%rsp)", "*(r7+8)", 0},
		{elf.EM_X86_64, "1@%ah", "r0.8", 0},
		{elf.EM_X86_64, "-4@-20(%rbp)", "*(r6-20)", 0},
		{elf.EM_X86_64, "8@(%rdx,%rcx,8)", "*(r1+r2*8)", 0},
		{elf.EM_X86_64, "8@-8(%rdx,%rcx)", "*(r1+r2*1-8)", 0},
		{elf.EM_X86_64, "8@arr(,%rdi,8)", "*(arr+r5*8)", usdt.ReasonSymbol},
		{elf.EM_X86_64, "-8@counter(%rip)", "*(counter)", usdt.ReasonSymbol},
		{elf.EM_X86_64, "-8@8+counter(%rip)", "*(counter+8)", usdt.ReasonSymbol},
		{elf.EM_X86_64, "-8@counter+8(%rip)", "*(counter+8)", usdt.ReasonSymbol},
		{elf.EM_X86_64, "8@.LCPI4_1(%rip)", "*(.LCPI4_1)", usdt.ReasonLabel},
		{elf.EM_X86_64, "8@8(%rip)", "?", usdt.ReasonLabel},
		{elf.EM_X86_64, "8@sym@GOTPCREL(%rip)", "*(sym)", usdt.ReasonSymbol},
		{elf.EM_X86_64, "8@$sym+4", "&(sym+4)", usdt.ReasonSymbol},
		{elf.EM_X86_64, "8@$4+sym", "&(sym+4)", usdt.ReasonSymbol},
		{elf.EM_X86_64, "8@$-1", "-1", 0},
		{elf.EM_X86_64, "8@$0xffffffffffffffff", "-1", 0},
		{elf.EM_X86_64, "4f@$0x3fc00000", "1069547520", 0},
		{elf.EM_X86_64, "-8@%fs:tls@tpoff", "*(tp+tls)", usdt.ReasonSymbol},
		{elf.EM_X86_64, "-8@tls@dtpoff(%rbx)", "*(tls+r3)", usdt.ReasonSymbol},
		{elf.EM_X86_64, "-8@%fs:40", "*(tp+40)", usdt.ReasonSegment},
		{elf.EM_X86_64, "-8@%fs:(%rax)", "*(tp+r0)", usdt.ReasonSegment},
		{elf.EM_X86_64, "8f@%xmm15", "v32", usdt.ReasonVector},
		{elf.EM_X86_64, "8f@%xmm16", "v67", usdt.ReasonVector},
		{elf.EM_X86_64, "8f@%st(3)", "v36", usdt.ReasonVector},
		{elf.EM_X86_64, "8@%mm1", "v42", usdt.ReasonVector},
		{elf.EM_X86_64, "2@%fs", "v-1", usdt.ReasonRegister},
		{elf.EM_X86_64, "8@%r16", "v130", usdt.ReasonRegister},
		{elf.EM_X86_64, "16@%rax", "r0", usdt.ReasonSize},
		{elf.EM_X86_64, "24@(%rax)", "*(r0)", usdt.ReasonSize},
		{elf.EM_386, "4@40+CheckpointStats@GOTOFF(%ebp)", "*(CheckpointStats+40)", usdt.ReasonSymbol},
		{elf.EM_386, "4@sym@GOT(%ebx)", "*(sym)", usdt.ReasonSymbol},
		{elf.EM_386, "4@sym@GOTOFF(%ebx,%ecx,4)", "*(sym+r1*4)", usdt.ReasonSymbol},
		{elf.EM_386, "-4@(%eax,%edx,4)", "*(r0+r2*4)", 0},
		{elf.EM_AARCH64, "8@x29", "r29", 0},
		{elf.EM_AARCH64, "4@w3", "r3", 0},
		{elf.EM_AARCH64, "8@sp", "r31", 0},
		{elf.EM_AARCH64, "8@xzr", "0", 0},
		{elf.EM_AARCH64, "-4@5", "5", 0},
		{elf.EM_AARCH64, "4f@1.5e+0", "1069547520", 0},
		{elf.EM_AARCH64, "8f@-2.0e+0", "-4611686018427387904", 0},
		{elf.EM_AARCH64, "8@[sp]", "*(r31)", 0},
		{elf.EM_AARCH64, "8@[x0, -16]", "*(r0-16)", 0},
		{elf.EM_AARCH64, "8@[x0, x1, lsl 3]", "*(r0+r1*8)", 0},
		{elf.EM_AARCH64, "8@[x0, w1, sxtw 2]", "*(r0+r1*4)", 0},
		{elf.EM_AARCH64, "8@[x0, #:lo12:.LC0]", "*(.LC0+r0)", usdt.ReasonLabel},
		{elf.EM_AARCH64, "8@[x0, #:got_lo12:sym]", "*(sym)", usdt.ReasonSymbol},
		{elf.EM_AARCH64, "8@b4", "&(b4)", usdt.ReasonSymbol},
		{elf.EM_AARCH64, "1@b4", "v68", usdt.ReasonVector},
		{elf.EM_AARCH64, "8f@v1", "v65", usdt.ReasonVector},
		{elf.EM_AARCH64, "8@glob+8", "&(glob+8)", usdt.ReasonSymbol},
		{elf.EM_AARCH64, "8f@.LC1", "*(.LC1)", usdt.ReasonLabel},
		{elf.EM_ARM, "4@fp", "r11", 0},
		{elf.EM_ARM, "4@[r2, r1]", "*(r2+r1*1)", 0},
		{elf.EM_ARM, "4@[r2, -r1]", "*(r2-r1*1)", 0},
		{elf.EM_ARM, "-4@#-3", "-3", 0},
		{elf.EM_ARM, "-4@[fp, #-24]", "*(r11-24)", 0},
		{elf.EM_RISCV, "8@s4", "r20", 0},
		{elf.EM_RISCV, "8@t3", "r28", 0},
		{elf.EM_RISCV, "-4@-20(s0)", "*(r8-20)", 0},
		{elf.EM_RISCV, "-4@7", "7", 0},
		{elf.EM_RISCV, "8@%lo(sym)(a5)", "*(sym+r15)", usdt.ReasonSymbol},
		{elf.EM_RISCV, "8@%pcrel_lo(.LA0)(a5)", "?.LA0", usdt.ReasonLabel},
		{elf.EM_RISCV, "8f@fa0", "v42", usdt.ReasonVector},
		{elf.EM_PPC64, "8@9", "r9", 0},
		{elf.EM_PPC64, "8@%r9", "r9", 0},
		{elf.EM_PPC64, "-4@i5", "5", 0},
		{elf.EM_PPC64, "-4@i-5", "-5", 0},
		{elf.EM_PPC64, "8@-8(31)", "*(r31-8)", 0},
		{elf.EM_PPC64, "8@9,8", "*(r9+r8*1)", 0},
		{elf.EM_PPC64, "8@0,8", "*(+r8*1)", 0},
		{elf.EM_PPC64, "8@sym@toc@l(9)", "*(sym)", usdt.ReasonSymbol},
		{elf.EM_S390, "8@160(%r15)", "*(r15+160)", 0},
		{elf.EM_S390, "8@0(%r3,%r1)", "*(r3+r1*1)", 0},
		{elf.EM_S390, "-4@-3", "-3", 0},
		{elf.EM_LOONGARCH, "8@$r12", "r12", 0},
		{elf.EM_LOONGARCH, "8@$a0", "r4", 0},
		{elf.EM_LOONGARCH, "-4@$r22,-20", "*(r22-20)", 0},
		{elf.EM_LOONGARCH, "8@$r4,$r5", "*(r4+r5*1)", 0},
		{elf.EM_LOONGARCH, "8@[$r22, -20]", "*(r22-20)", 0},
		{elf.EM_LOONGARCH, "8@7", "7", 0},
	}
	for _, test := range tests {
		args, err := usdt.ParseArgs(test.machine, test.text)
		if err != nil || len(args) != 1 {
			t.Errorf("%v %q: %v, %v", test.machine, test.text, args, err)
			continue
		}
		a := args[0]
		if got := a.Operand.String(); got != test.want || a.Reason != test.reason || a.String() != test.text {
			t.Errorf("%v %q: got %q, %v; want %q, %v", test.machine, test.text, got, a.Reason, test.want, test.reason)
		}
		checkArg(t, a)
	}
}

func BenchmarkParseArgs(b *testing.B) {
	for _, name := range []string{"amd64", "arm64"} {
		b.Run(name, func(b *testing.B) {
			lines := corpus(b, name)
			n := 0
			for _, line := range lines {
				args, _ := usdt.ParseArgs(corpora[name], line)
				n += len(args)
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, line := range lines {
					_, _ = usdt.ParseArgs(corpora[name], line)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/arg")
		})
	}
}
