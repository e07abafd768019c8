package usercode

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/insn"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// TestRawAddressARM64: instructions lie at multiples of 4.
func TestRawAddressARM64(t *testing.T) {
	f, err := elffile.Open(probetest.TargetFor("arm64"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := &Boundaries{Ctx: t.Context(), F: f}
	err = userfile.Symbols(t.Context(), f, func(name []byte) bool { return string(name) == "add" }, func(s userfile.Symbol) error {
		for i := range uint64(8) {
			err := b.Check(s.Value + i)
			want := fmt.Sprintf("address %#x lies within the instruction of 4 bytes at %#x", s.Value+i, s.Value+i&^3)
			if i%4 == 0 && err != nil || i%4 != 0 && (err == nil || err.Error() != want) {
				t.Errorf("add+%d: %v", i, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestReturnsNewInstructions: functions of Go that hold instructions which
// golang.org/x/arch does not know had no return probes.
func TestReturnsNewInstructions(t *testing.T) {
	code := []byte{0x66, 0x0f, 0x38, 0xf6, 0xc8, 0xc3, 0xf3, 0x48, 0x0f, 0x1e, 0xc8, 0xf3, 0xc3}
	rets, err := Returns(elf.EM_X86_64, code)
	if fmt.Sprint(rets) != "[5 11]" || err != nil {
		t.Errorf("%v, %v", rets, err)
	}
	var unknown *insn.Error
	if _, err := Returns(elf.EM_X86_64, append(code, 0x06)); !errors.As(err, &unknown) || unknown.Offset != 13 {
		t.Errorf("%v", err)
	}
}

// TestManySites: places within one large function are followed once, in their order;
// and what a file's tables would have decoded again and again has an end.
func TestManySites(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	const size = 4 << 20
	f := elfbuild.File{
		Machine: elf.EM_X86_64,
		Sections: []elfbuild.Section{{
			Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: 0x1000,
			Data: bytes.Repeat([]byte{0x48, 0x89, 0xe5, 0x90}, size/4),
		}},
		Symbols: []elfbuild.Symbol{{Name: "f", Value: 0x1000, Size: size, Type: elf.STT_FUNC, Section: 1}},
	}
	file, err := elffile.NewBytes(f.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b := &Boundaries{Ctx: t.Context(), F: file}
	for i := range uint64(size / 1024) {
		at := 0x1000 + 1024*i
		if err := b.Check(at); err != nil {
			t.Fatal(err)
		}
		if err := b.Check(at + 2); err == nil {
			t.Fatalf("%#x is taken for an instruction", at+2)
		}
		if err := b.Check(at + 3); err != nil {
			t.Fatal(err)
		}
	}
	if b.Followed > 2*size {
		t.Errorf("%d bytes were decoded of %d", b.Followed, size)
	}
	whole := userfile.Symbol{Value: 0x1000, Size: size}
	if err := b.CheckFunction(whole, size-4); err != nil {
		t.Error(err)
	}
	b.Followed = MaxFollowed - size/2
	if err := b.CheckFunction(whole, size-4); err == nil || !strings.Contains(err.Error(), "too much code") {
		t.Errorf("beyond the limit: %v", err)
	}
}
