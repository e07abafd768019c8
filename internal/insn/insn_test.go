package insn

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// amd64Code are instructions with their lengths; what a disassembler calls each
// is behind it. Those marked with * are what golang.org/x/arch's x86asm does not
// know, or measures wrongly.
const amd64Code = `
c3 ret
f3c3 repz ret
f2c3 bnd ret
c20800 ret 8
90 nop
f30f1efa * endbr64
660f1f840000000000 nopw 0(rax,rax)
662e0f1f840000000000 cs nopw
48b8efcdab8967452301 movabs
66b83412 mov ax
40b634 mov sil
48a10807060504030201 movabs al
67a108070605 addr32 movabs
c8100001 enter
e800000000 call
48e800000000 rex.W call
664866e800000000 ! data16 rex (ignored) data16 call: Intel and AMD differ
666648e800000000 data16 rex.W call
66e800000000 ! Intel and AMD differ
660f8400000000 ! Intel and AMD differ
ff2500000000 jmp rip
f6c101 test cl
f6d1 not cl
f7c100000000 test ecx
66f7c10000 test cx
f7d9 neg
80000102 ! room for 3 only: addb 1, rax; the next begins
c6f801 xabort
c7f800000000 xbegin
0f05 syscall
0f0b ud2
0fb9c0 ud1
0fb8c0 ! jmpe
f3480fb8c0 popcnt
0f0fc8bf 3DNow pavgusb *
0f0f4810b4 3DNow pfmul *
0fa7c0 xstore *
f30fa7c8 xcrypt-ecb *
0fa700 ! padlock has registers only
f20f78ca0403 insertq *
660f78c10403 extrq *
0f78c8 vmread *
0f20d8 mov cr3
0f2018 mov cr3, whose first two bits do not count
660f38f6c8 adcx *
f3480f38f6c8 adox *
f30f1ec8 rdsspd *
f3480f1ec8 rdsspq *
f3480faee8 incsspq *
f30fc7f8 rdpid *
660f3acfc001 gf2p8affineinvqb *
660f38cfc1 gf2p8mulb *
0f3accc102 sha1rnds4
0f01ef wrpkru *
0f01d0 xgetbv
f30fae00 *rdfsbase needs a register; still three and a prefix
660f38821f invpcid rbx *
c5f877 vzeroupper *
c5f058c2 vaddps *
c5f5724006 ! the last byte is missing
c5f572d006 vpsrld imm *
c4e27918c0 vbroadcastss *
c4e3f90000 00 vpermq (rax) *
c4e37b f0c007 rorx *
c4e2fbf6c1 mulx *
c4e26900c2 vpshufb *
62f17c4858c1 vaddps zmm *
62f27d4818 4001 vbroadcastss disp8 *
62f36d48 0340 0102 valignd disp8 *
62f57c4858c1 vaddph (map 5) *
62f67d4898c1 vfmadd132ph (map 6) *
62f10c4877 ! no vzeroupper here
62f47c1801c3 add (APX, three operands) *
62f47c1881c3 01020304 add imm32 (APX) *
62f47d1881c3 0102 add imm16 (APX) *
62f4fd1881c3 01020304 add imm32, 66 and W (APX) *
62f47c08f6c005 ctest imm8 (APX) *
d51058c3 ! rex2 pop, then ret
d51058 pop r16 *
d590af c0 imul, map 1 (APX) *
d518b8 0102030405060708 movabs r16 *
d500a1 0102030405060708 jmpabs *
8f00 pop (rax)
8fe87890 ! the last bytes are missing
8fe97890c1 vprotb (XOP 9) *
8fe878c0c107 vprotb imm (XOP 8) *
8fea7810c1 01020304 bextr imm (XOP 10) *
f2480f38f100 crc32 *
660f3a0fc108 palignr
06 ! push es: not in 64 bits
60 ! pusha
d6 ! salc
f1 int1
0fff ! ud0: the length differs
0f04 !
82c001 ! 
fff8 ! 
66c5f058c2 ! a prefix before VEX
48c5f058c2 ! REX before VEX
2ec5f058c2 vaddps with a segment *
2e2e2e2e2e2e2e2e2e2e2e2e2e2e90 fourteen prefixes
2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e90 ! fifteen
`

// TestLengths measures instructions, and each with other bytes behind it.
func TestLengths(t *testing.T) {
	for line := range strings.Lines(strings.TrimSpace(amd64Code)) {
		code, rest, wrong := parseLine(t, line)
		for _, tail := range [][]byte{nil, {0x90}, bytes.Repeat([]byte{0xff}, 16)} {
			in, err := Decode(elf.EM_X86_64, append(bytes.Clone(code), tail...))
			switch {
			case wrong:
				if err == nil && in.Len == len(code) {
					t.Errorf("%x (%s): taken for an instruction", code, rest)
				}
			case err != nil:
				t.Errorf("%x (%s): %v", code, rest, err)
			case in.Len != len(code):
				t.Errorf("%x (%s) and %d bytes: length %d", code, rest, len(tail), in.Len)
			case in.Ret != strings.Contains(rest, "ret"):
				t.Errorf("%x (%s): returns: %v", code, rest, in.Ret)
			}
		}
		for n := range len(code) {
			if in, err := Decode(elf.EM_X86_64, code[:n]); err == nil && !wrong {
				t.Errorf("%x, %d bytes of %x (%s): length %d", code[:n], n, code, rest, in.Len)
			}
		}
	}
}

// parseLine parses "c4e3f90000 00 vpermq": bytes in hexadecimal, then words. The word ! means
// that the bytes are no instruction.
func parseLine(t *testing.T, line string) (code []byte, rest string, wrong bool) {
	words := strings.Fields(line)
	for i, w := range words {
		b, err := hex.DecodeString(w)
		if err != nil || i > 0 && len(w) > 16 || strings.ToLower(w) != w || w == "add" {
			rest = strings.Join(words[i:], " ")
			break
		}
		code = append(code, b...)
	}
	if len(code) == 0 {
		t.Fatalf("%q has no code", line)
	}
	return code, rest, strings.HasPrefix(rest, "!")
}

func TestARM64(t *testing.T) {
	for _, c := range []struct {
		code []byte
		ret  bool
	}{
		{[]byte{0xc0, 0x03, 0x5f, 0xd6}, true},  // ret
		{[]byte{0x20, 0x02, 0x5f, 0xd6}, true},  // ret x17
		{[]byte{0xff, 0x0b, 0x5f, 0xd6}, true},  // retaa
		{[]byte{0xff, 0x0f, 0x5f, 0xd6}, true},  // retab
		{[]byte{0x20, 0x02, 0x1f, 0xd6}, false}, // br x17
		{[]byte{0xe0, 0x03, 0x9f, 0xd6}, false}, // eret
		{[]byte{0, 0, 0, 0, 1}, false},
	} {
		in, err := Decode(elf.EM_AARCH64, c.code)
		if err != nil || in.Len != 4 || in.Ret != c.ret {
			t.Errorf("% x: %+v, %v", c.code, in, err)
		}
		if _, err := Decode(elf.EM_AARCH64, c.code[:3]); !errors.Is(err, ErrShort) {
			t.Errorf("3 bytes: %v", err)
		}
	}
	if _, err := Decode(elf.EM_RISCV, []byte{0, 0, 0, 0}); err == nil {
		t.Error("an unknown machine has a decoder")
	}
}

func TestWalk(t *testing.T) {
	code := []byte{0x90, 0x48, 0x89, 0xe5, 0xc3, 0x06, 0x90}
	var at []int
	err := Walk(elf.EM_X86_64, code, func(off int, _ Inst) bool { at = append(at, off); return true })
	var e *Error
	if !errors.As(err, &e) || e.Offset != 5 || !errors.Is(err, ErrUnknown) || len(at) != 3 || at[2] != 4 {
		t.Errorf("%v at %v", err, at)
	}
	if want := "instruction at +5 (06 90): unknown instruction"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := Walk(elf.EM_X86_64, code, func(off int, in Inst) bool { return !in.Ret }); err != nil {
		t.Errorf("stopped at the return: %v", err)
	}
}

// FuzzDecode: an instruction has 1 to 15 bytes, and the ones behind it change
// nothing.
func FuzzDecode(f *testing.F) {
	for line := range strings.Lines(strings.TrimSpace(amd64Code)) {
		var b []byte
		for _, w := range strings.Fields(line) {
			h, err := hex.DecodeString(w)
			if err != nil {
				break
			}
			b = append(b, h...)
		}
		f.Add(b, byte(0))
	}
	f.Fuzz(func(t *testing.T, code []byte, other byte) {
		for _, m := range []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64} {
			in, err := Decode(m, code)
			if err != nil {
				continue
			}
			if in.Len < 1 || in.Len > 15 || in.Len > len(code) {
				t.Fatalf("%s: % x: length %d", m, code, in.Len)
			}
			cut := append(bytes.Clone(code[:in.Len]), other)
			for _, c := range [][]byte{cut[:in.Len], cut} {
				if again, err := Decode(m, c); again != in || err != nil {
					t.Fatalf("%s: % x: %+v, of % x: %+v, %v", m, code, in, c, again, err)
				}
			}
		}
	})
}
