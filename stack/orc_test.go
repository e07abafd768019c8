package stack

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack/internal/rules"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

var (
	orcModules = flag.String("orc-modules", "", "compare the .ko files below this `directory` with objtool's dump")
	orcObjtool = flag.String("objtool", "", "the objtool `program` of the modules' kernel version")
)

// orcBytes is one entry.
func TestDecodeORC(t *testing.T) {
	for _, c := range []struct {
		v    rules.ORCVersion
		raw  []byte
		want string
	}{
		{rules.ORC1, stacktest.ORCEntry(8, 0, 5), "0: sp:sp+8 bp:(und) type:call end:0"},
		{rules.ORC1, stacktest.ORCEntry(16, -16, 0x14), "0: sp:bp+16 bp:prevsp-16 type:call end:0"},
		{rules.ORC1, stacktest.ORCEntry(0, 0, 0x105), "0: sp:sp+0 bp:(und) type:regs end:0"},
		{rules.ORC1, stacktest.ORCEntry(0, 0, 0x205), "0: sp:sp+0 bp:(und) type:regs (partial) end:0"},
		{rules.ORC1, stacktest.ORCEntry(0, 0, 0x400), "0: sp:(und) bp:(und) type:call end:1"},
		{rules.ORC2, stacktest.ORCEntry(8, 0, 0x505), "0: sp:sp+8 bp:(und) type:regs signal:1 end:0"},
		{rules.ORC2, stacktest.ORCEntry(0, 0, 0x800), "0: sp:(und) bp:(und) type:call signal:0 end:1"},
		{rules.ORC3, stacktest.ORCEntry(8, 0, 0x205), "0:type:call sp:sp+8 bp:(und) signal:0"},
		{rules.ORC3, stacktest.ORCEntry(0, 0, 0x100), "0:type:end sp:(und) bp:(und) signal:0"},
		{rules.ORC3, stacktest.ORCEntry(-8, 0, 0xb08), "0:type:regs sp:(bp-8) bp:(und) signal:1"},
		{rules.ORC4, stacktest.ORCEntry(8, -16, 0x283), "0:type:call sp:sp+8 bp:prevsp-16 signal:0"},
		{rules.ORC4, stacktest.ORCEntry(0, 0, 0x203), "0:type:call sp:sp+0 bp:(und) signal:0"},
		{rules.ORC3, stacktest.ORCEntry(0, 0, 0x70f), "0:type:? sp:?+0 bp:(und) signal:0"},
	} {
		o, err := NewORC(make([]byte, 4), c.raw, 0, c.v)
		if err != nil {
			t.Fatal(err)
		}
		for e := range o.All() {
			if got := e.String(); got != c.want {
				t.Errorf("layout %d, %x: got %q want %q", c.v, c.raw, got, c.want)
			}
		}
	}
	// Calls mean calls and ends mean ends in every layout.
	for v, flags := range map[rules.ORCVersion][2]uint16{rules.ORC1: {5, 0x400}, rules.ORC2: {5, 0x800}, rules.ORC3: {0x205, 0x100}, rules.ORC4: {0x203, 0x100}} {
		call, end := decodeORC(stacktest.ORCEntry(8, 0, flags[0]), v), decodeORC(stacktest.ORCEntry(0, 0, flags[1]), v)
		if call != (rules.ORC{SP: rules.ORCSP, SPOffset: 8, Type: rules.ORCTypeCall}) || end.Type != rules.ORCTypeEnd {
			t.Errorf("layout %d: %+v, %+v", v, call, end)
		}
	}
}

func TestNewORCErrors(t *testing.T) {
	for _, c := range []struct {
		ip, entries int
		v           rules.ORCVersion
	}{{3, 6, rules.ORC3}, {4, 5, rules.ORC3}, {8, 6, rules.ORC3}, {4, 6, rules.ORCUnknown}, {4, 6, 5}} {
		if _, err := NewORC(make([]byte, c.ip), make([]byte, c.entries), 0, c.v); err == nil {
			t.Errorf("%+v accepted", c)
		}
	}
	if _, err := ReadORC([]byte("hello")); err == nil {
		t.Error("text accepted")
	}
	if _, err := ReadORC((&elfbuild.File{Machine: elf.EM_X86_64}).Bytes()); !errors.Is(err, ErrNoTable) {
		t.Errorf("ELF file without ORC: %v", err)
	}
	if _, err := ORCVersionOf(make([]byte, 20)); err == nil {
		t.Error("unknown header accepted")
	}
}

// orcKernel is an ELF file with ORC sections: entries begin at the addresses.
func orcKernel(header string, types []byte, addrs []uint64, entries ...[]byte) []byte {
	const ipAddr = 0x2000
	var ip []byte
	for i, a := range addrs {
		ip = binary.LittleEndian.AppendUint32(ip, uint32(a-ipAddr-uint64(4*i)))
	}
	hdr, _ := hex.DecodeString(header)
	f := elfbuild.File{Machine: elf.EM_X86_64, Sections: []elfbuild.Section{
		{Name: ".orc_unwind_ip", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: ipAddr, Data: ip},
		{Name: ".orc_unwind", Type: elf.SHT_PROGBITS, Data: slices.Concat(entries...)},
	}}
	if len(hdr) > 0 {
		f.Sections = append(f.Sections, elfbuild.Section{Name: ".orc_header", Type: elf.SHT_PROGBITS, Data: hdr})
	}
	if types != nil {
		f.Sections = append(f.Sections, elfbuild.Section{Name: ".BTF", Type: elf.SHT_PROGBITS, Data: types})
	}
	return f.Bytes()
}

// orcBTF describes struct orc_entry with the given members, behind an integer.
func orcBTF(members ...string) []byte {
	strs := []byte("\x00int\x00orc_entry\x00")
	le := binary.LittleEndian
	var types []byte
	put := func(v ...uint32) {
		for _, x := range v {
			types = le.AppendUint32(types, x)
		}
	}
	put(1, 1<<24, 4, 32)
	put(5, 4<<24|uint32(len(members)), 6)
	for _, m := range members {
		put(uint32(len(strs)), 1, 0)
		strs = append(append(strs, m...), 0)
	}
	hdr := le.AppendUint16(nil, 0xeb9f)
	hdr = append(hdr, 1, 0)
	for _, v := range []int{24, 0, len(types), len(types), len(strs)} {
		hdr = le.AppendUint32(hdr, uint32(v))
	}
	return slices.Concat(hdr, types, strs)
}

func TestORCVersionDetection(t *testing.T) {
	addrs := []uint64{0x1000}
	v1call, v3call := stacktest.ORCEntry(8, 0, 5), stacktest.ORCEntry(8, 0, 0x205)
	for _, c := range []struct {
		name  string
		image []byte
		want  rules.ORCVersion
	}{
		{"header2", orcKernel("db84aed4103b31dd51e017f8f79783ca985c2c51", nil, addrs, v1call), rules.ORC2},
		{"header3", orcKernel("fe5d32bf581bd63b2ca9a5c65ba5a625eab3fe24", orcBTF("end"), addrs, v3call), rules.ORC3},
		{"header4", orcKernel("137c36ad7627c4dd55932176bb0ecdbd5041fc82", nil, addrs, v3call), rules.ORC4},
		{"btf1", orcKernel("", orcBTF("sp_offset", "type", "end"), addrs, v1call), rules.ORC1},
		{"btf2", orcKernel("", orcBTF("type", "signal", "end"), addrs, v1call), rules.ORC2},
		{"btf3", orcKernel("", orcBTF("type", "signal"), addrs, v3call), rules.ORC3},
		{"entries1", orcKernel("", nil, addrs, v1call), rules.ORC1},
		{"entries3", orcKernel("", []byte("no BTF"), addrs, v3call), rules.ORC3},
	} {
		o, err := ReadORC(c.image)
		if err != nil || o.Version != c.want {
			t.Errorf("%s: layout %v, %v; want %d", c.name, o, err, c.want)
			continue
		}
		for e := range o.All() {
			if e.Addr != 0x1000 || e.Rule.Type != rules.ORCTypeCall {
				t.Errorf("%s: %v", c.name, e)
			}
		}
	}
	if _, err := ReadORC(orcKernel(strings.Repeat("00", 20), nil, addrs, v1call)); err == nil {
		t.Error("unknown layout accepted")
	}
}

const (
	kaddr  = stacktest.KernelCode
	kstack = stacktest.KernelStack
)

func orcTestTable(t testing.TB) *ORCTable {
	t.Helper()
	ip, entries := stacktest.ORC()
	o, err := NewORC(ip, entries, kaddr, rules.ORC3)
	if err != nil {
		t.Fatal(err)
	}
	return o.Table(kaddr, kaddr+0x2000, 0, nil)
}

func TestORCWalker(t *testing.T) {
	table := orcTestTable(t)
	regs := func(off uint64) *Regs { return fpRegs(elf.EM_X86_64, kaddr+off, kstack+0x1000, kstack+0x1100) }
	mem := func(w ...uint64) Memory { return NewRanges(words(kstack+0x1000, w...)) }
	ptregs := make([]uint64, 23)
	ptregs[16], ptregs[17], ptregs[19], ptregs[7] = kaddr+0x800, 0x10, kstack+0x1200, kstack+0x1300 // ip, cs, sp, r10
	user := slices.Clone(ptregs)
	user[17] = 0x33
	for _, c := range []struct {
		name string
		r    *Regs
		mem  Memory
		want []uint64
		end  StopReason
	}{
		{"call", regs(0x110), mem(kaddr + 0x10), []uint64{0x110, 0x10}, StopBottom},
		{"pushed_rbp", regs(0x210), mem(kstack+0x1018, kaddr+0x310, 0, kstack+0x1020, kaddr+0x10), []uint64{0x210, 0x310, 0x10}, StopBottom},
		{"exception", regs(0x400), NewRanges(words(kstack+0x1000, ptregs...), words(kstack+0x12f8, kaddr+0x10)), []uint64{0x400, 0x800, 0x10}, StopBottom},
		{"user", regs(0x400), mem(user...), []uint64{0x400}, StopBottom},
		{"partial", regs(0x500), NewRanges(words(kstack+0x1000, kaddr+0x100, 0x10, 0, kstack+0x1100, 0), words(kstack+0x1100, kaddr+0x10)), []uint64{0x500, 0x100, 0x10}, StopBottom},
		{"partial_user", regs(0x500), mem(0x400000, 0x33, 0, 0, 0), []uint64{0x500}, StopBottom},
		{"undefined", regs(0x610), mem(1), []uint64{0x610}, StopNoRule},
		{"other_stack", regs(0x710), NewRanges(words(kstack+0x1000, kstack-0x10000), words(kstack-0x10000, kaddr+0x10)), []uint64{0x710, 0x10}, StopBottom},
		{"unknown_register", regs(0x810), mem(1), []uint64{0x810}, StopNoRule},
		{"nonsense", regs(0x910), mem(1), []uint64{0x910}, StopNoRule},
		{"no_progress", regs(0xa10), NewRanges(words(kstack+0xff8, kaddr+0xa10)), []uint64{0xa10}, StopLoop},
		{"duplicate", regs(0xb10), mem(0, 0, kaddr+0x10), []uint64{0xb10, 0x10}, StopBottom},
		{"no_memory", regs(0x110), mem(), []uint64{0x110}, StopBadMemory},
		{"into_nowhere", regs(0x110), mem(0x1234), []uint64{0x110}, StopNoMapping},
		{"null_call", fpRegs(elf.EM_X86_64, 0, kstack+0x1000, 0), mem(kaddr + 0x10), nil, StopBottom},
		{"bpf_program", fpRegs(elf.EM_X86_64, kaddr+0x4000_0000, kstack+0x1000, kstack+0x1008), mem(0, 0, kaddr+0x10), nil, StopBottom},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ORCWalker{Tables: []*ORCTable{table}}
			var frames [20]Frame
			n, end := w.Walk(frames[:], c.r, c.mem)
			var got []uint64
			for _, f := range frames[:n] {
				got = append(got, f.PC-kaddr)
			}
			if end != c.end || c.want != nil && !slices.Equal(got, c.want) || c.want == nil && n != 2 {
				t.Errorf("got %#x %v, want %#x %v", got, end, c.want, c.end)
			}
		})
	}
	if _, end := (&ORCWalker{}).Walk(make([]Frame, 2), &Regs{Machine: elf.EM_AARCH64}, mem(1)); end != StopNone {
		t.Errorf("arm64: %v", end)
	}
	w := ORCWalker{Tables: []*ORCTable{table}}
	frames := make([]Frame, 20)
	m := mem(kaddr + 0x10)
	r := regs(0x110)
	if n := testing.AllocsPerRun(100, func() { w.Walk(frames, r, m) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestORCTableOfModule(t *testing.T) {
	o := &ORCFile{
		Version: rules.ORC3, entries: slices.Concat(stacktest.ORCEntry(8, 0, 0x205), stacktest.ORCEntry(16, 0, 0x205)),
		places: []orcPlace{{".text", 0x10}, {".init.text", 0}},
	}
	table := o.Table(kaddr, kaddr+0x100, 0, func(s string) (uint64, bool) { return kaddr, s == ".text" })
	if r, ok := table.lookup(kaddr + 0x20); !ok || r.SPOffset != 8 {
		t.Errorf("%+v %v", r, ok)
	}
	for _, addr := range []uint64{kaddr, kaddr - 1, kaddr + 0x100} {
		if _, ok := table.lookup(addr); ok {
			t.Errorf("%#x has a rule", addr)
		}
	}
}

// TestORCMatchesObjtool is run by hand: with -orc-modules and -objtool.
func TestORCMatchesObjtool(t *testing.T) {
	if *orcModules == "" || *orcObjtool == "" {
		return
	}
	files, entries := 0, 0
	for _, path := range elfFiles(*orcModules, 1<<30) {
		if filepath.Ext(path) != ".ko" {
			continue
		}
		out, err := testenv.Command(t, *orcObjtool, "--dump=orc", path).Output()
		if err != nil {
			t.Errorf("%s: objtool: %v", path, err)
			continue
		}
		o, err := OpenORC(path)
		if errors.Is(err, ErrNoTable) && len(out) == 0 {
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		var b bytes.Buffer
		for e := range o.All() {
			fmt.Fprintln(&b, e)
		}
		files++
		entries += o.len()
		if !bytes.Equal(b.Bytes(), out) {
			t.Errorf("%s: dump differs", path)
		}
	}
	t.Logf("%d modules, %d entries equal", files, entries)
}

func FuzzReadORC(f *testing.F) {
	f.Add(orcKernel("fe5d32bf581bd63b2ca9a5c65ba5a625eab3fe24", nil, []uint64{0x1000, 0x1010}, stacktest.ORCEntry(8, 0, 0x205), stacktest.ORCEntry(0, 0, 0x100)))
	f.Add(orcKernel("", orcBTF("type", "end"), []uint64{0x1000}, stacktest.ORCEntry(8, 0, 5)))
	f.Add(append(make([]byte, 0x202), "HdrS"...))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := ReadORC(b)
		if err != nil {
			return
		}
		n := 0
		for e := range o.All() {
			_ = e.String()
			n++
		}
		if n != o.len() {
			t.Fatalf("%d entries of %d", n, o.len())
		}
		w := ORCWalker{Tables: []*ORCTable{o.Table(0, 1<<32, 0, func(string) (uint64, bool) { return 0, true })}}
		var frames [50]Frame
		if _, end := w.Walk(frames[:], fpRegs(elf.EM_X86_64, 0x1008, 0, 0), MemoryRange{0, b}); end == StopUnknown {
			t.Fatal("no reason")
		}
	})
}
