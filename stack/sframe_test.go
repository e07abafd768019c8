package stack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack/internal/rules"
)

// sframeSection builds a section of one function with one-byte offsets. In version
// 3 the top bit of info makes its rows flexible.
func sframeSection(version, flags, abi uint8, fixedRA int8, start int32, size uint32, info, repeat uint8, fres ...[]byte) []byte {
	le := binary.LittleEndian
	body := slices.Concat(fres...)
	b := le.AppendUint16(nil, sframeMagic)
	b = append(b, version, flags, abi, 0, byte(fixedRA), 0)
	fde := []int{1: sframeFDE1, 2: sframeFDE2, 3: sframeFDE3, 4: 0}[version]
	if version == 3 { // rows, kind of the description, repetition
		body = append([]byte{byte(len(fres)), 0, info & 0x7f, info >> 7, repeat}, body...)
	}
	for _, v := range []int{1, len(fres), len(body), 0, fde} {
		b = le.AppendUint32(b, uint32(v))
	}
	if version == 3 {
		b = le.AppendUint64(b, uint64(int64(start)))
		b = le.AppendUint32(b, size)
		return append(le.AppendUint32(b, 0), body...)
	}
	b = le.AppendUint32(b, uint32(start))
	for _, v := range []uint32{size, 0, uint32(len(fres))} {
		b = le.AppendUint32(b, v)
	}
	b = append(b, info)
	if version == 2 {
		b = append(b, repeat, 0, 0)
	}
	return append(b, body...)
}

// fre is a row with one-byte numbers.
func fre(start byte, sp bool, offs ...int8) []byte {
	info := byte(len(offs) << 1)
	if sp {
		info |= 1
	}
	b := []byte{start, info}
	for _, o := range offs {
		b = append(b, byte(o))
	}
	return b
}

func TestSFrame(t *testing.T) {
	const addr = 0x4000
	for _, c := range []struct {
		name string
		b    []byte
		want map[uint64]string // CFA, frame pointer, return address
	}{
		{
			"v3_amd64", sframeSection(3, sframePCRel, sframeAMD64, -8, -0x3000-sframeHeaderLen, 0x20, 0, 0, fre(0, true, 8), fre(1, true, 16, -16), fre(4, false, 16, -16)),
			map[uint64]string{0xfff: "- s s", 0x1000: "rsp+8 s c-8", 0x1001: "rsp+16 c-16 c-8", 0x101f: "rbp+16 c-16 c-8", 0x1020: "- s s"},
		},
		{
			"v3_flexible", sframeSection(3, 0, sframeAMD64, -8, -0x3000, 0x20, 1<<7, 0, fre(0, true, 8)),
			map[uint64]string{0x1000: "- s s"},
		},
		{
			"v3_plt", sframeSection(3, 0, sframeAMD64, -8, -0x3000, 0x20, 1<<4, 16, fre(0, true, 8), fre(11, true, 16)),
			map[uint64]string{0x100a: "rsp+8 s c-8", 0x100b: "rsp+16 s c-8", 0x1010: "rsp+8 s c-8", 0x101b: "rsp+16 s c-8"},
		},
		{
			"v1_amd64", sframeSection(1, 0, sframeAMD64, -8, -0x3000, 0x20, 0, 0, fre(0, true, 8), fre(1, true, 16, -16), fre(4, false, 16, -16)),
			map[uint64]string{0xfff: "- s s", 0x1000: "rsp+8 s c-8", 0x1001: "rsp+16 c-16 c-8", 0x101f: "rbp+16 c-16 c-8", 0x1020: "- s s"},
		},
		{
			"v2_amd64_pcrel", sframeSection(2, sframePCRel, sframeAMD64, -8, -0x3000-sframeHeaderLen, 0x20, 0, 0, fre(0, true, 8)),
			map[uint64]string{0x1000: "rsp+8 s c-8", 0x1020: "- s s"},
		},
		{
			"plt", sframeSection(2, 0, sframeAMD64, -8, -0x3000, 0x30, 1<<4, 16, fre(0, true, 8), fre(11, true, 16)),
			map[uint64]string{0x100a: "rsp+8 s c-8", 0x100b: "rsp+16 s c-8", 0x1010: "rsp+8 s c-8", 0x102f: "rsp+16 s c-8"},
		},
		{
			"v2_arm64", sframeSection(2, 0, sframeARM64, 0, -0x3000, 0x20, 0, 0, fre(0, true, 0), fre(4, true, 32, -24, -32)),
			map[uint64]string{0x1000: "sp+0 s s", 0x1004: "sp+32 c-32 c-24"},
		},
		{"outermost", sframeSection(2, 0, sframeAMD64, -8, -0x3000, 0x20, 0, 0, fre(0, true)), map[uint64]string{0x1000: "rsp+0 s u"}},
	} {
		table, err := parseSFrame(c.b, addr, 0, 1<<30)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for pc, want := range c.want {
			r, m := table.rules.Lookup(pc), table.rules.Machine
			fp := uint8(AMD64RBP)
			if m != 62 {
				fp = ARM64FP
			}
			if got := cfaText(r.CFA, regName(m)) + " " + text(r, fp, m) + " " + text(r, uint8(rules.ReturnReg(m)), m); got != want {
				t.Errorf("%s: %#x: got %q want %q", c.name, pc, got, want)
			}
		}
	}
	if _, err := parseSFrame(sframeSection(4, 0, sframeAMD64, -8, 0, 1, 0, 0), 0, 0, 1<<30); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("version 4: %v", err)
	}
	if _, err := parseSFrame([]byte("hello"), 0, 0, 1<<30); err == nil {
		t.Error("text accepted")
	}
}

// TestSFrameMatchesCFI has the assembler write both, and compares them address
// by address.
func TestSFrameMatchesCFI(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "a.c")
	if err := os.WriteFile(src, []byte(`
int g(int *p, int n);
int f(int n) { int a[100]; for (int i = 0; i < 100; i++) a[i] = n + i; return g(a, n) + a[n % 100]; }
int g(int *p, int n) { if (n > 0) return f(n - 1) * p[0]; return n; }
int h(int a, int b, int c, int d, int e, int f, int g2, int h2) { int v[a + 1]; v[0] = b; return g(v, c) + d + e + f + g2 + h2; }
int main(int argc, char **argv) { return f(argc) + h(argc, 2, 3, 4, 5, 6, 7, 8); }
`), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "a")
	out, err := testenv.Command(t, "gcc", "-O2", "-fno-inline", "-Wa,--gsframe", "-o", bin, src).CombinedOutput()
	if err != nil {
		testenv.Need(t, testenv.Got("gcc that writes SFrame", fmt.Errorf("%w: %s", err, out), "gsframe"))
	}
	s, err := OpenSFrame(bin)
	if errors.Is(err, ErrNoTable) || errors.Is(err, errors.ErrUnsupported) {
		testenv.Need(t, testenv.Missing("linker that keeps SFrame", err.Error()))
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := OpenCFI(bin)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	pcs, _ := unpack(&c.rules.Rows)
	for off := range pcs[len(pcs)-1] {
		addr := c.rules.Base + uint64(off)
		a, b := s.rules.Lookup(addr), c.rules.Lookup(addr)
		if a.CFA.Kind == rules.CFANone || b.CFA.Kind == rules.CFAPLT { // PLTs are described by mask there
			continue
		}
		compared++
		name := regName(c.rules.Machine)
		if a.CFA != b.CFA || text(a, AMD64RBP, c.rules.Machine) != text(b, AMD64RBP, c.rules.Machine) || text(a, AMD64RIP, c.rules.Machine) != text(b, AMD64RIP, c.rules.Machine) {
			t.Errorf("%#x: %s %v, CFI has %s %v", addr, cfaText(a.CFA, name), a.Saved, cfaText(b.CFA, name), b.Saved)
		}
	}
	if compared < 100 {
		t.Errorf("only %d addresses compared", compared)
	}
	t.Logf("%d addresses the same, %+v", compared, s.Stats())
}

func FuzzSFrame(f *testing.F) {
	f.Add(sframeSection(1, 0, sframeAMD64, -8, -0x3000, 0x20, 0, 0, fre(0, true, 8), fre(1, true, 16, -16)))
	f.Add(sframeSection(3, 0, sframeAMD64, -8, -0x3000, 0x20, 0, 0, fre(0, true, 8), fre(1, true, 16, -16)))
	f.Add(sframeSection(2, 0, sframeARM64, 0, -0x3000, 0x30, 1<<4, 16, fre(0, true, 0), fre(4, true, 32, -24, -32)))
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := parseSFrame(bytes.Clone(b), 0x4000, 0, 1<<30)
		if err != nil {
			return
		}
		pcs, _ := unpack(&table.rules.Rows)
		for i := 1; i < len(pcs); i++ {
			if pcs[i] <= pcs[i-1] {
				t.Fatalf("rows out of order: %#x after %#x", pcs[i], pcs[i-1])
			}
		}
	})
}
