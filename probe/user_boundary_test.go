package probe

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// fileEnv is a machine that has one program, /bin/x.
func fileEnv(t *testing.T, b []byte) *Env {
	return NewEnv(&EnvOptions{
		Root: fstest.MapFS{"bin/x": {Data: b}}, Arch: "amd64", Release: "6.12.0-test", Features: probetest.Features(), BTF: probetest.BTF(t),
	})
}

func readTarget(t *testing.T) []byte {
	b, err := os.ReadFile(probetest.TargetFor("amd64"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// expectPlace resolves a target, which must fail with the text, or, where that is
// empty, have one proven site; with Unsafe it always resolves.
func expectPlace(t *testing.T, env *Env, target Target, want string) {
	t.Helper()
	plan, err := Resolve(env, []Target{target}, nil)
	switch {
	case want != "":
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", target, err, want)
		}
	case err != nil:
		t.Errorf("%s: %v", target, err)
	case len(plan.Programs[0].Sites) != 1 || !plan.Programs[0].Sites[0].Boundary:
		t.Errorf("%s: the site is not proven\n%s", target, plan)
	}
	if plan, err = Resolve(env, []Target{target}, &Options{Unsafe: true}); err != nil {
		t.Errorf("%s, unsafe: %v", target, err)
		return
	}
	s := &plan.Programs[0].Sites[0]
	if s.Boundary != (want == "") || strings.Contains(plan.String(), " unsafe") != (want != "") {
		t.Errorf("%s, unsafe: proven %v\n%s", target, s.Boundary, plan)
	}
}

// TestRawAddress: an address within an instruction was attached by every tool, and
// changed the instruction ("trace u:victimloop:0x117c").
func TestRawAddress(t *testing.T) {
	const add, nested = 0x201160, 0x201180 // see objdump -d
	env := fileEnv(t, readTarget(t))
	for addr, want := range map[uint64]string{
		add: "", add + 3: "", add + 25: "", nested: "",
		add + 1:  "address 0x201161 lies within the instruction of 3 bytes at 0x201160",
		add + 24: "address 0x201178 lies within the instruction of 7 bytes at 0x201172",
		add + 26: "can't be told: it is in no function that the file knows", // padding
		0x200159: "address 0x200159 is in no executable code",               // .rodata
	} {
		expectPlace(t, env, Uprobe{Path: "/bin/x", Address: addr}, want)
	}
}

// TestUSDTBoundary: a note may say any address.
func TestUSDTBoundary(t *testing.T) {
	b := readTarget(t)
	const guarded = 0x201221
	pc := binary.LittleEndian.AppendUint64(nil, guarded)
	at := strings.Index(string(b), string(pc))
	if at < 0 {
		t.Fatal("no note has the address")
	}
	target := USDT{Path: "/bin/x", Provider: "target", Name: "guarded"}
	expectPlace(t, fileEnv(t, b), target, "")
	binary.LittleEndian.PutUint64(b[at:], 0x201161)
	expectPlace(t, fileEnv(t, b), target, "address 0x201161 lies within the instruction of 3 bytes at 0x201160")
}

// boundaryFile has two functions and between them a byte that is no instruction,
// and code behind that.
func boundaryFile(symbols []elfbuild.Symbol, frames bool) *elfbuild.File {
	const text = 0x1000
	f := &elfbuild.File{
		Machine: elf.EM_X86_64, Symbols: symbols,
		Sections: []elfbuild.Section{{
			Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: text,
			Data: []byte{
				0x48, 0x89, 0xe5, 0xc3, // 0x1000 mov; ret
				0x06, 0x48, 0x89, 0xe5, 0xc3, // 0x1004 none; mov; ret
				0x66, 0x0f, 0x38, 0xf6, 0xc8, 0x48, 0x89, 0xe5, 0xc3, // 0x1009 adcx; mov; ret
			},
		}},
	}
	if !frames {
		return f
	}
	const header = 0x3000
	u32 := binary.LittleEndian.AppendUint32
	eh := append(u32(u32(nil, 16), 0), 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0, 0, 0) // the CIE, 20 bytes
	hdr := append([]byte{1, 0x1b, 0x03, 0x3b}, u32(u32(nil, 0), 2)...)
	for _, fn := range []struct{ start, size uint32 }{{0x1000, 4}, {0x1009, 9}} {
		at := uint32(0x2000 + len(eh))
		hdr = u32(u32(hdr, fn.start-header), at-header)
		eh = u32(u32(u32(u32(u32(eh, 16), at+4-0x2000), fn.start-(at+8)), fn.size), 0)
	}
	f.Sections = append(f.Sections,
		elfbuild.Section{Name: ".eh_frame", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: 0x2000, Data: eh},
		elfbuild.Section{Name: ".eh_frame_hdr", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: header, Data: hdr})
	f.Segments = []elfbuild.Segment{{Type: elf.PT_GNU_EH_FRAME, Flags: elf.PF_R, Section: ".eh_frame_hdr"}}
	return f
}

// TestBoundarySources: what says where a function begins; and that nothing is said
// of what is behind an instruction that cannot be told, where all was let pass.
func TestBoundarySources(t *testing.T) {
	const unknown = "can't be told: at 0x1004 (06 48 89 e5 c3 66 0f 38): unknown instruction"
	const nowhere = "can't be told: it is in no function that the file knows"
	fn := func(name string, at, size uint64, typ elf.SymType) elfbuild.Symbol {
		return elfbuild.Symbol{Name: name, Value: at, Size: size, Type: typ, Section: 1}
	}
	first, last := fn("first", 0x1000, 4, elf.STT_FUNC), fn("last", 0x1009, 9, elf.STT_FUNC)
	for name, c := range map[string]struct {
		symbols []elfbuild.Symbol
		frames  bool
		want    map[uint64]string
	}{
		"nothing": {nil, false, map[uint64]string{0x1000: "", 0x1003: "", 0x1005: unknown, 0x1009: unknown}},
		"symbols": {[]elfbuild.Symbol{first, last}, false, map[uint64]string{
			0x1003: "", 0x1005: nowhere, 0x1009: "", 0x100a: "within the instruction of 5 bytes at 0x1009", 0x100e: "",
		}},
		"frames": {nil, true, map[uint64]string{
			0x1003: "", 0x1005: nowhere, 0x1009: "", 0x100a: "within the instruction of 5 bytes at 0x1009", 0x100e: "",
		}},
		"label": {[]elfbuild.Symbol{first, fn("label", 0x1005, 0, elf.STT_NOTYPE)}, false, map[uint64]string{
			0x1004: nowhere, 0x1005: "", 0x1006: "within the instruction of 3 bytes at 0x1005", 0x1009: "", 0x100b: "at 0x1009",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			env := fileEnv(t, boundaryFile(c.symbols, c.frames).Bytes())
			for addr, want := range c.want {
				expectPlace(t, env, Uprobe{Path: "/bin/x", Address: addr}, want)
			}
		})
	}
	t.Run("offset", func(t *testing.T) {
		env := fileEnv(t, boundaryFile([]elfbuild.Symbol{fn("all", 0x1000, 18, elf.STT_FUNC)}, false).Bytes())
		expectPlace(t, env, Uprobe{Path: "/bin/x", Symbol: "all", Offset: 3}, "")
		expectPlace(t, env, Uprobe{Path: "/bin/x", Symbol: "all", Offset: 5}, "instruction at +4 (06")
		expectPlace(t, env, Uprobe{Path: "/bin/x", Symbol: "all", Offset: 1}, "offset 1 lies within the instruction of 3 bytes at +0")
	})
	t.Run("data", func(t *testing.T) {
		f := boundaryFile(nil, true)
		f.Symbols = []elfbuild.Symbol{{Name: "f", Value: 0x2000, Size: 8, Type: elf.STT_FUNC, Section: 2}}
		expectPlace(t, fileEnv(t, f.Bytes()), Uprobe{Path: "/bin/x", Symbol: "f"}, "address 0x2000 is in no executable code")
	})
}

// TestFlatFile: a file of another format has no functions, but offsets.
func TestFlatFile(t *testing.T) {
	env := fileEnv(t, []byte("\x90\x90\xc3"))
	u := Uprobe{Path: "/bin/x", Address: 2}
	if _, err := Resolve(env, []Target{u}, nil); err == nil || !strings.Contains(err.Error(), "is not an ELF file") {
		t.Errorf("without Unsafe: %v", err)
	}
	plan, err := Resolve(env, []Target{u}, &Options{Unsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	if s := plan.Programs[0].Sites[0]; s.Offset != 2 || s.Path != "/bin/x" || s.Boundary {
		t.Errorf("site is %+v", s)
	}
	if _, err := Resolve(env, []Target{Uprobe{Path: "/bin/x", Symbol: "f"}}, &Options{Unsafe: true}); err == nil {
		t.Error("it has a function")
	}
}

func TestBoundary(t *testing.T) {
	env := probetest.Env(t)
	for offset, want := range map[uint64]string{
		0: "", 3: "", 1: "offset 1 lies within the instruction of 3 bytes at +0",
		4096: "offset 4096 lies beyond add, which has 26 bytes",
	} {
		_, err := Resolve(env, []Target{Uprobe{Path: "/bin/target", Symbol: "add", Offset: offset}}, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("add+%d: %v", offset, err)
		}
	}
}
