package elfnotes_test

import (
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/internal/testenv"
)

// le builds a little-endian descriptor: numbers by their Go type, strings and
// bytes as they are.
func le(values ...any) []byte {
	var b []byte
	for _, v := range values {
		switch v := v.(type) {
		case string:
			b = append(b, v...)
		case int:
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		default:
			b, _ = binary.Append(b, binary.LittleEndian, v)
		}
	}
	return b
}

func TestDecode(t *testing.T) {
	pad := func(s string, n int) string { return s + strings.Repeat("\x00", n-len(s)) }
	tests := []struct {
		owner   string
		typ     uint32
		class   elf.Class
		machine elf.Machine
		desc    []byte
		kind    string
		want    string
	}{
		{"GNU", 1, 2, 62, le(0, 3, 2, 0), "abi-tag", "Linux 3.2.0"},
		{"GNU", 1, 2, 62, le(9, 1, 0, 0), "abi-tag", "OS 9 1.0.0"},
		{"GNU", 2, 1, 3, le(1, 1, "\x00nosegneg\x00"), "hwcap", "mask 0x1: 0 nosegneg"},
		{"GNU", 3, 2, 62, []byte("\x01\xab"), "build-id", "01ab"},
		{"GNU", 4, 2, 62, []byte("gold 1.16\x00"), "gold-version", "gold 1.16"},
		{"GNU", 5, 2, 62, le(uint32(0xc0000002), 4, 3, 0, uint32(0xc0008002), 4, 0x12, 0), "property", "x86 feature: IBT, SHSTK; x86 ISA needed: x86-64-v2, 0x10"},
		{"GNU", 5, 1, 3, le(uint32(0xc0000002), 4, 1, uint32(0xc0008002), 4, 1), "property", "x86 feature: IBT; x86 ISA needed: x86-64-baseline"},
		{"GNU", 5, 2, 183, le(uint32(0xc0000000), 4, 3, 0), "property", "AArch64 feature: BTI, PAC"},
		{"GNU", 5, 2, 183, le(uint32(0xc0000001), 16, uint64(2), uint64(85)), "property", "AArch64 PAuth ABI: platform 0x2 version 0x55"},
		{"GNU", 5, 2, 243, le(uint32(0xc0000000), 4, 3, 0), "property", "RISC-V feature: CFI_LP_UNLABELED, CFI_SS"},
		{"GNU", 5, 2, 62, le(1, 8, uint64(0x100000), 2, 0, uint32(0xb0008000), 4, 1, 0), "property", "stack size: 0x100000; no copy on protected; 1_needed: indirect external access"},
		{"GNU", 5, 2, 62, le(uint32(0xe0000000), 4, 7, 0), "property", "property 0xe0000000: 07000000"},
		{"Go", 4, 2, 62, []byte("abc/def"), "go-build-id", "abc/def"},
		{"stapsdt", 3, 2, 62, le(uint64(16), uint64(32), uint64(0), "p\x00n\x00-4@%eax\x00"), "stapsdt", "p:n pc 0x10 base 0x20 semaphore 0x0 args -4@%eax"},
		{"stapsdt", 3, 1, 3, le(16, 32, 48, "p\x00n\x00\x00"), "stapsdt", "p:n pc 0x10 base 0x20 semaphore 0x30 args "},
		{"FDO", 0xcafe1a7e, 2, 62, []byte(`{"type":"deb","name":"x"}` + "\x00\x00"), "package", `{"type":"deb","name":"x"}`},
		{"FDO", 0x407c0c0a, 2, 62, []byte(`[{"soname":["liba.so.1","liba.so"],"feature":"a","priority":"suggested"}]` + "\x00"), "dlopen", "liba.so.1 liba.so (a, suggested)"},
		{"Linux", 0x100, 0, 0, []byte("6.1.0-1\x00"), "build-salt", "6.1.0-1"},
		{"Linux", 0x101, 0, 0, le(1), "lto", "0x1"},
		{"Xen", 5, 2, 62, []byte("xen-3.0\x00"), "xen-version", "xen-3.0"},
		{"Xen", 18, 2, 62, le(0x1000150), "xen-phys32-entry", "0x1000150"},
		{"Xen", 1, 2, 62, le(uint64(0xffffffff81000000)), "xen-entry", "0xffffffff81000000"},
		{"Xen", 19, 2, 62, le(1, 2, 3), "xen-phys32-reloc", "0x1 0x2 0x3"},
		{"Android", 1, 2, 183, le(21, pad("r25c", 64), pad("9519653", 64)), "android-ident", "API 21 NDK r25c build 9519653"},
		{"Android", 1, 2, 183, le(31), "android-ident", "API 31"},
		{"FreeBSD", 1, 2, 62, le(1400097), "abi-tag", "1400097"},
		{"FreeBSD", 3, 2, 62, []byte("amd64\x00"), "arch-tag", "amd64"},
		{"NetBSD", 1, 2, 62, le(1000000000), "ident", "1000000000"},
		{"PaX", 3, 2, 62, le(0x20), "pax", "0x20"},
		{"OpenBSD", 1, 2, 62, le(0), "ident", "0"},
		{"DragonFly", 1, 2, 62, le(600400), "ident", "600400"},
		{"CORE", 3, 2, 62, le("\x00R\x00\x05", 0, uint64(0), 1000, 1001, 7, 6, 5, 4, pad("cat", 16), pad("cat /etc/x ", 80)), "prpsinfo", "pid 7 cat: cat /etc/x"},
		{"CORE", 3, 1, 40, le("\x00R\x00\x05", 0, uint16(1000), uint16(1001), 7, 6, 5, 4, pad("cat", 16), pad("cat /etc/x ", 80)), "prpsinfo", "pid 7 cat: cat /etc/x"},
		{"CORE", 6, 1, 40, le(6, 4096, 9, 0x8000, 0, 0), "auxv", "PAGESZ 0x1000 ENTRY 0x8000"},
		{"CORE", 6, 2, 62, le(uint64(6), uint64(4096), uint64(99), uint64(1), uint64(0), uint64(0)), "auxv", "PAGESZ 0x1000 99 0x1"},
		{"CORE", 0x53494749, 2, 62, le(11, 0, 1, 0, uint64(0xdead)), "siginfo", "signal 11 code 1 addr 0xdead"},
		{"CORE", 0x53494749, 1, 40, le(6, 0, -6, 12, 1000), "siginfo", "signal 6 code -6 from pid 12 uid 1000"},
		{"CORE", 0x46494c45, 2, 62, le(uint64(2), uint64(4096), uint64(1), uint64(2), uint64(0), uint64(3), uint64(4), uint64(5), "/a\x00/b\x00"), "file", "0x1-0x2 0x0 /a; 0x3-0x4 0x5000 /b"},
		{"CORE", 0x46494c45, 1, 40, le(1, 4096, 1, 2, 1, "/a\x00"), "file", "0x1-0x2 0x1000 /a"},
		{"CORE", 2, 2, 183, le(make([]byte, 512), 16, 32), "fpregset", "32 vector registers, control 0x20 status 0x10"},
		{"LINUX", 0x205, 2, 62, le(2, 256, 576, 0, 30, 8, 900, 0), "x86-xsave-layout", "AVX 576+256; 30 900+8"},
		{"LINUX", 0x401, 2, 183, le(uint64(0x7f00), uint64(0)), "arm-tls", "0x7f00 0x0"},
		{"LINUX", 0x401, 1, 40, le(0x7f00), "arm-tls", "0x7f00"},
		{"LINUX", 0x404, 2, 183, le(-1), "arm-system-call", "0xffffffff"},
		{"LINUX", 0x400, 1, 40, le("abc"), "arm-vfp", "616263"},
		{"LINUX", 0x900, 2, 243, le("a"), "riscv-csr", "61"},
		{"VMCOREINFO", 0, 2, 62, []byte("OSRELEASE=6.1\n"), "vmcoreinfo", "OSRELEASE=6.1\n"},
		{"GDB", 0xff000000, 2, 62, []byte("<xml/>\x00"), "gdb-tdesc", "<xml/>"},
		{"FRRouting", 1178948184, 2, 62, []byte{1}, "", "01"},
		{"", 0, 2, 62, nil, "", ""},
	}
	for _, test := range tests {
		n := elfnotes.Note{Owner: test.owner, Type: test.typ, Desc: test.desc, Order: binary.LittleEndian, Class: test.class, Machine: test.machine, Align: 4}
		if n.Kind() != test.kind {
			t.Errorf("%s/%#x is %q, want %q", test.owner, test.typ, n.Kind(), test.kind)
		}
		v, err := n.Decode()
		if err != nil || v.String() != test.want {
			t.Errorf("%s/%#x: got %q, %v; want %q", test.owner, test.typ, v, err, test.want)
			continue
		}
		if _, err := json.Marshal(v); err != nil {
			t.Errorf("%s/%#x: %v", test.owner, test.typ, err)
		}
		if _, raw := v.(elfnotes.Raw); raw || test.kind == "" {
			continue
		}
		// No decoder may run over the end: cut every descriptor everywhere.
		for i := range test.desc {
			n.Desc = test.desc[:i:i]
			if v, err := n.Decode(); err == nil {
				_ = v.String()
			}
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := []struct {
		name  string
		owner string
		typ   uint32
		desc  []byte
	}{
		{"short-abi-tag", "GNU", 1, le(0, 1)},
		{"property-near-2-32", "GNU", 5, le(uint32(0xc0000002), uint32(0xfffffff0), 1)},
		{"stapsdt-without-end", "stapsdt", 3, le(uint64(1), uint64(2), uint64(3), "p\x00n\x00-4@%eax")},
		{"stapsdt-without-name", "stapsdt", 3, le(uint64(1), uint64(2), uint64(3), "p\x00\x00\x00")},
		{"stapsdt-short", "stapsdt", 3, le(uint64(1), uint64(2))},
		{"package-no-json", "FDO", 0xcafe1a7e, []byte("{")},
		{"files-near-2-64", "CORE", 0x46494c45, le(uint64(1<<63), uint64(4096))},
		{"files-without-names", "CORE", 0x46494c45, le(uint64(1), uint64(4096), uint64(1), uint64(2), uint64(3), "abc")},
		{"prstatus-short", "CORE", 1, make([]byte, 50)},
		{"xstate-short", "LINUX", 0x202, make([]byte, 500)},
		{"number-of-3-bytes", "Linux", 0x101, make([]byte, 3)},
	}
	for _, test := range tests {
		n := elfnotes.Note{Where: "raw", Owner: test.owner, Type: test.typ, Desc: test.desc, Order: binary.LittleEndian, Class: elf.ELFCLASS64, Machine: elf.EM_X86_64}
		var format *elfnotes.FormatError
		if v, err := n.Decode(); !errors.As(err, &format) {
			t.Errorf("%s: got %v, %v", test.name, v, err)
		}
	}
}

func TestPRStatusRegisters(t *testing.T) {
	build := func(class elf.Class, regs int) []byte {
		var b []byte
		word := func(v int) {
			if class == elf.ELFCLASS64 {
				b = append(b, le(uint64(v))...)
			} else {
				b = append(b, le(v)...)
			}
		}
		b = le(11, 0, 0, uint16(11), uint16(0))
		word(0)
		word(0)
		b = append(b, le(1, 2, 3, 4)...)
		for i := range 8 {
			word(i)
		}
		for i := range regs {
			word(100 + i)
		}
		word(1)
		return b
	}
	tests := []struct {
		class   elf.Class
		machine elf.Machine
		regs    int // elf_gregset_t of the machine
		size    int // struct elf_prstatus
		dwarf   map[int]uint64
	}{
		{elf.ELFCLASS64, elf.EM_X86_64, 27, 336, map[int]uint64{0: 110, 5: 114, 7: 119, 16: 116}},
		{elf.ELFCLASS64, elf.EM_AARCH64, 34, 392, map[int]uint64{0: 100, 31: 131, 32: 132}},
		{elf.ELFCLASS64, elf.EM_RISCV, 32, 376, map[int]uint64{1: 101, 31: 131}},
		{elf.ELFCLASS32, elf.EM_386, 17, 144, map[int]uint64{0: 106, 8: 112}},
		{elf.ELFCLASS32, elf.EM_ARM, 18, 148, map[int]uint64{0: 100, 15: 115}},
	}
	for _, test := range tests {
		desc := build(test.class, test.regs)
		if len(desc) != test.size {
			t.Fatalf("%v: test builds %d bytes, the kernel %d", test.machine, len(desc), test.size)
		}
		n := elfnotes.Note{Owner: "CORE", Type: 1, Desc: desc, Order: binary.LittleEndian, Class: test.class, Machine: test.machine}
		v, err := n.Decode()
		if err != nil {
			t.Fatal(err)
		}
		s := v.(elfnotes.PRStatus)
		if len(s.Regs) != test.regs || !s.FPValid || s.PID != 1 || s.Session != 4 || s.ChildSystemTime.Usec != 7 {
			t.Errorf("%v: %+v", test.machine, s)
		}
		for dwarf, want := range test.dwarf {
			if got, ok := s.Reg(dwarf); !ok || got != want {
				t.Errorf("%v: register %d is %d, %v; want %d", test.machine, dwarf, got, ok, want)
			}
		}
		for _, dwarf := range []int{-1, 40, 1 << 30} {
			if _, ok := s.Reg(dwarf); ok {
				t.Errorf("%v: register %d is known", test.machine, dwarf)
			}
		}
	}
}

// TestKernelCore reads a core file that this machine's kernel writes.
func TestKernelCore(t *testing.T) {
	if pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern"); err != nil || strings.TrimSpace(string(pattern)) != "core" {
		testenv.Need(t, testenv.Missing("core files", fmt.Sprintf("kernel.core_pattern is %q, not \"core\" (%v)", pattern, err)))
	}
	dir := t.TempDir()
	// The parent that a core names is the thread that forked, not its process:
	// fill_psinfo, fs/binfmt_elf.c.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, err := os.Readlink("/proc/thread-self") // PID/task/TID
	if err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, "sh", "-c", "ulimit -c unlimited; kill -SEGV $$").Here()
	cmd.Dir = dir
	_ = cmd.Run()
	path := filepath.Join(dir, "core")
	if _, err := os.Stat(path); err != nil {
		paths, _ := filepath.Glob(path + ".*")
		if len(paths) == 0 {
			testenv.Need(t, testenv.Missing("core files", "the kernel wrote none"))
		}
		path = paths[0]
	}
	f, err := elfnotes.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := map[string]bool{}
	var regs elfnotes.PRStatus
	notes, errOf := f.Notes()
	for n := range notes {
		v, err := n.Decode()
		if err != nil {
			t.Fatal(err)
		}
		seen[n.Kind()] = true
		switch v := v.(type) {
		case elfnotes.PRStatus:
			regs = v
			if int(v.PID) != cmd.Process.Pid || v.CurSig != 11 {
				t.Errorf("prstatus: %+v, want pid %d", v, cmd.Process.Pid)
			}
		case elfnotes.PRPSInfo:
			if v.Name != "sh" || !strings.HasPrefix(v.Args, "sh -c ulimit") || strconv.Itoa(int(v.PPID)) != filepath.Base(thread) {
				t.Errorf("prpsinfo: %+v, parent %d, want thread %s", v, v.PPID, thread)
			}
		case elfnotes.SigInfo:
			if v.Signo != 11 || v.Code != 0 || int(v.PID) != cmd.Process.Pid {
				t.Errorf("siginfo: %+v", v)
			}
		case elfnotes.Auxv:
			if size, ok := v.Find(6); !ok || size != uint64(os.Getpagesize()) {
				t.Errorf("auxv: %v", v)
			}
		case elfnotes.FileMap:
			found := false
			for _, m := range v.Mappings {
				found = found || strings.Contains(m.Path, "/libc") || strings.Contains(m.Path, "ld-")
			}
			if !found {
				t.Errorf("file: no C library in %v", v)
			}
		case elfnotes.XSaveLayout:
			for _, c := range v {
				if c.Size == 0 || c.Offset < 576 {
					t.Errorf("xsave layout: %v", v)
				}
			}
		}
	}
	if err := errOf(); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"prstatus", "prpsinfo", "siginfo", "auxv", "file"} {
		if !seen[kind] {
			t.Errorf("no %s", kind)
		}
	}
	if f.Machine == elf.EM_X86_64 {
		if sp, ok := regs.Reg(7); !ok || sp < 1<<32 {
			t.Errorf("stack pointer is %#x", sp)
		}
	}
}
