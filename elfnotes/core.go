package elfnotes

import (
	"debug/elf"
	"fmt"
	"strings"
)

// coreSpec returns the spec of a note of a core file, of owner CORE or LINUX: since Linux 6.16
// the kernel chooses the owner from a table. NT_* of include/uapi/linux/elf.h.
func coreSpec(typ uint32) spec {
	switch typ {
	case 1:
		return spec{"prstatus", decodePRStatus}
	case 2:
		return spec{"fpregset", decodeFPRegs}
	case 3:
		return spec{"prpsinfo", decodePRPSInfo}
	case 6:
		return spec{"auxv", decodeAuxv}
	case 0x53494749:
		return spec{"siginfo", decodeSigInfo}
	case 0x46494c45:
		return spec{"file", decodeFileMap}
	case 0x202:
		return spec{"x86-xstate", decodeXState}
	case 0x205:
		return spec{"x86-xsave-layout", decodeXSaveLayout}
	case 0x401, 0x404, 0x406, 0x409, 0x40a, 0x40e, 0x40f:
		return spec{armKinds[typ], decodeArmWords}
	}
	if kind, ok := armKinds[typ]; ok {
		return spec{kind, nil}
	}
	return spec{coreKinds[typ], nil}
}

// coreKinds are the kinds of notes that this package has no type for.
var coreKinds = map[uint32]string{
	4: "taskstruct", 0x46e62b7f: "prxfpreg",
	0x100: "ppc-vmx", 0x101: "ppc-spe", 0x102: "ppc-vsx", 0x103: "ppc-tar", 0x104: "ppc-ppr",
	0x105: "ppc-dscr", 0x106: "ppc-ebb", 0x107: "ppc-pmu", 0x10d: "ppc-tm-cdscr", 0x110: "ppc-pkey",
	0x200: "386-tls", 0x201: "386-ioperm", 0x203: "x86-shstk-old", 0x204: "x86-shstk",
	0x300: "s390-high-gprs", 0x301: "s390-timer", 0x302: "s390-todcmp", 0x303: "s390-todpreg",
	0x304: "s390-ctrs", 0x305: "s390-prefix", 0x306: "s390-last-break", 0x307: "s390-system-call",
	0x308: "s390-tdb", 0x309: "s390-vxrs-low", 0x30a: "s390-vxrs-high", 0x30b: "s390-gs-cb",
	0x30c: "s390-gs-bc", 0x900: "riscv-csr", 0x901: "riscv-vector", 0x902: "riscv-tagged-addr-ctrl",
	0xa00: "loongarch-cpucfg", 0xa01: "loongarch-csr", 0xa02: "loongarch-lsx", 0xa03: "loongarch-lasx",
	0xa04: "loongarch-lbt",
}

// armKinds are the notes of arm and arm64.
var armKinds = map[uint32]string{
	0x400: "arm-vfp", 0x401: "arm-tls", 0x402: "arm-hw-break", 0x403: "arm-hw-watch",
	0x404: "arm-system-call", 0x405: "arm-sve", 0x406: "arm-pac-mask", 0x407: "arm-paca-keys",
	0x408: "arm-pacg-keys", 0x409: "arm-tagged-addr-ctrl", 0x40a: "arm-pac-enabled-keys",
	0x40b: "arm-ssve", 0x40c: "arm-za", 0x40d: "arm-zt", 0x40e: "arm-fpmr", 0x40f: "arm-poe",
	0x410: "arm-gcs",
}

// PRStatus is the state of one thread in a core file: NT_PRSTATUS. The notes
// that follow it, up to the next PRStatus, belong to the same thread.
type PRStatus struct {
	// Signal and CurSig are the signal that ended the process: the kernel writes
	// it for every thread, and leaves Code and Errno 0 (SigInfo has them). Pending
	// and Held, the blocked ones, are sets of signals, signal n at bit n-1.
	Signal  int32  `json:"signal"`
	Code    int32  `json:"code"`
	Errno   int32  `json:"errno"`
	CurSig  int16  `json:"cursig"`
	Pending uint64 `json:"pending"`
	Held    uint64 `json:"held"`
	// PID is the thread's id (Linux calls it TID elsewhere).
	PID     int32 `json:"pid"`
	PPID    int32 `json:"ppid"`
	PGroup  int32 `json:"pgrp"`
	Session int32 `json:"sid"`
	// Times of the thread and its children.
	UserTime, SystemTime           Timeval
	ChildUserTime, ChildSystemTime Timeval
	// Regs are the general registers in the kernel's order for the machine (elf_gregset_t, the
	// same as struct user_regs_struct). See Reg.
	Regs    []uint64 `json:"regs"`
	FPValid bool     `json:"fpvalid"`
	// Machine is the machine of the registers.
	Machine elf.Machine `json:"-"`
}

// Timeval is a time in seconds and microseconds.
type Timeval struct {
	Sec  int64 `json:"sec"`
	Usec int64 `json:"usec"`
}

// String reads "pid 12 signal 11 (37 registers)".
func (s PRStatus) String() string {
	return fmt.Sprintf("pid %d signal %d (%d registers)", s.PID, s.CurSig, len(s.Regs))
}

func (PRStatus) value() {}

// decodePRStatus reads struct elf_prstatus, include/linux/elfcore.h.
func decodePRStatus(n Note) (Value, error) {
	r := newReader(n)
	s := PRStatus{Machine: n.Machine}
	s.Signal, s.Code, s.Errno = int32(r.u32()), int32(r.u32()), int32(r.u32())
	s.CurSig = int16(r.u16())
	r.skip(2)
	s.Pending, s.Held = r.word(), r.word()
	s.PID, s.PPID, s.PGroup, s.Session = int32(r.u32()), int32(r.u32()), int32(r.u32()), int32(r.u32())
	for _, t := range []*Timeval{&s.UserTime, &s.SystemTime, &s.ChildUserTime, &s.ChildSystemTime} {
		*t = Timeval{r.long(), r.long()}
	}
	// The rest is elf_gregset_t, int pr_fpvalid, and padding to a long.
	word := n.word()
	for len(r.b) > word {
		s.Regs = append(s.Regs, r.word())
	}
	s.FPValid = r.u32() != 0
	if len(s.Regs) == 0 {
		r.short = true
	}
	return s, r.err()
}

// long reads a C long.
func (r *reader) long() int64 {
	if r.n.word() == 4 {
		return int64(int32(r.u32()))
	}
	return int64(r.u64())
}

// amd64Regs are, by DWARF number, the positions in struct user_regs_struct: rax rdx rcx rbx rsi
// rdi rbp rsp r8 … r15 rip.
var amd64Regs = [...]int{10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16}

// i386Regs: eax ecx edx ebx esp ebp esi edi eip.
var i386Regs = [...]int{6, 1, 2, 0, 15, 5, 3, 4, 12}

// Reg returns a register by its DWARF number, and reports whether it is known: the general
// registers, stack pointer and program counter of amd64, 386, arm64, arm and riscv64.
func (s *PRStatus) Reg(dwarf int) (uint64, bool) {
	i := -1
	switch s.Machine {
	case elf.EM_X86_64:
		if dwarf >= 0 && dwarf < len(amd64Regs) {
			i = amd64Regs[dwarf]
		}
	case elf.EM_386:
		if dwarf >= 0 && dwarf < len(i386Regs) {
			i = i386Regs[dwarf]
		}
	case elf.EM_AARCH64: // x0 … x30, sp, pc
		if dwarf <= 32 {
			i = dwarf
		}
	case elf.EM_ARM: // r0 … r15
		if dwarf <= 15 {
			i = dwarf
		}
	case elf.EM_RISCV: // the kernel stores pc in place of x0
		if dwarf >= 1 && dwarf <= 31 {
			i = dwarf
		}
	}
	if i < 0 || i >= len(s.Regs) {
		return 0, false
	}
	return s.Regs[i], true
}

// PRPSInfo describes the process of a core file: NT_PRPSINFO.
type PRPSInfo struct {
	// State is the letter that ps prints: 'R', 'S', 'Z'.
	State   string `json:"state"`
	Zombie  bool   `json:"zombie"`
	Nice    int8   `json:"nice"`
	Flags   uint64 `json:"flags"`
	UID     uint32 `json:"uid"`
	GID     uint32 `json:"gid"`
	PID     int32  `json:"pid"`
	PPID    int32  `json:"ppid"`
	PGroup  int32  `json:"pgrp"`
	Session int32  `json:"sid"`
	// Name is the command's name, at most 15 bytes; Args the beginning of its
	// command line, at most 79 bytes.
	Name string `json:"name"`
	Args string `json:"args"`
}

// String reads "pid 12 NAME: ARGS".
func (p PRPSInfo) String() string { return fmt.Sprintf("pid %d %s: %s", p.PID, p.Name, p.Args) }

func (PRPSInfo) value() {}

// decodePRPSInfo reads struct elf_prpsinfo, whose user ids have 16 bits on the
// older 32-bit machines.
func decodePRPSInfo(n Note) (Value, error) {
	r := newReader(n)
	b := r.bytes(4)
	if r.short {
		return nil, r.err()
	}
	p := PRPSInfo{
		State: strings.TrimRight(string(b[1:2]), "\x00"), Zombie: b[2] != 0,
		Nice: int8(b[3]),
	}
	if n.word() == 8 {
		r.skip(4)
	}
	p.Flags = r.word()
	if n.word() == 4 && len(n.Desc) < 128 {
		p.UID, p.GID = uint32(r.u16()), uint32(r.u16())
	} else {
		p.UID, p.GID = r.u32(), r.u32()
	}
	p.PID, p.PPID, p.PGroup, p.Session = int32(r.u32()), int32(r.u32()), int32(r.u32()), int32(r.u32())
	p.Name, p.Args = r.text(16), strings.TrimRight(r.text(80), " ")
	return p, r.err()
}

// SigInfo is the signal that ended the process: NT_SIGINFO.
type SigInfo struct {
	Signo int32 `json:"signo"`
	Errno int32 `json:"errno"`
	Code  int32 `json:"code"`
	// Addr is the faulting address of SIGSEGV, SIGBUS, SIGILL, SIGFPE and
	// SIGTRAP that the kernel sent.
	Addr uint64 `json:"addr,omitempty"`
	// PID and UID are the sender's, of a signal that a process sent.
	PID int32  `json:"pid,omitempty"`
	UID uint32 `json:"uid,omitempty"`
}

// String reads "signal 11 code 1 addr 0x10" or "signal 6 code -6 from pid 12 uid 0".
func (s SigInfo) String() string {
	if s.Code <= 0 {
		return fmt.Sprintf("signal %d code %d from pid %d uid %d", s.Signo, s.Code, s.PID, s.UID)
	}
	return fmt.Sprintf("signal %d code %d addr %#x", s.Signo, s.Code, s.Addr)
}

func (SigInfo) value() {}

func decodeSigInfo(n Note) (Value, error) {
	r := newReader(n)
	s := SigInfo{Signo: int32(r.u32())}
	s.Errno, s.Code = int32(r.u32()), int32(r.u32())
	if n.Machine == elf.EM_MIPS {
		s.Errno, s.Code = s.Code, s.Errno
	}
	if n.word() == 8 {
		r.skip(4) // the union contains pointers
	}
	// SI_USER and below were sent by a process: kill, tgkill, sigqueue.
	if s.Code <= 0 {
		s.PID, s.UID = int32(r.u32()), r.u32()
	} else {
		s.Addr = r.word()
	}
	return s, r.err()
}

// Auxv is the auxiliary vector that the kernel gave to the process: NT_AUXV,
// and the contents of /proc/PID/auxv.
type Auxv []AuxEntry

// AuxEntry is one entry of an Auxv: AT_* and its value.
type AuxEntry struct {
	// Type is AT_*, Value its value: a number or an address.
	Type  uint64 `json:"type"`
	Value uint64 `json:"value"`
}

var auxNames = map[uint64]string{
	2: "EXECFD", 3: "PHDR", 4: "PHENT", 5: "PHNUM", 6: "PAGESZ", 7: "BASE", 8: "FLAGS", 9: "ENTRY",
	10: "NOTELF", 11: "UID", 12: "EUID", 13: "GID", 14: "EGID", 15: "PLATFORM", 16: "HWCAP",
	17: "CLKTCK", 23: "SECURE", 24: "BASE_PLATFORM", 25: "RANDOM", 26: "HWCAP2",
	27: "RSEQ_FEATURE_SIZE", 28: "RSEQ_ALIGN", 29: "HWCAP3", 30: "HWCAP4", 31: "EXECFN", 32: "SYSINFO",
	33: "SYSINFO_EHDR", 51: "MINSIGSTKSZ",
}

// Find returns the value of the first entry of a type, and reports whether there is one.
func (a Auxv) Find(typ uint64) (uint64, bool) {
	for _, e := range a {
		if e.Type == typ {
			return e.Value, true
		}
	}
	return 0, false
}

// String reads "PHDR 0x40 PHENT 0x38 …".
func (a Auxv) String() string {
	parts := make([]string, len(a))
	for i, e := range a {
		name := auxNames[e.Type]
		if name == "" {
			name = fmt.Sprint(e.Type)
		}
		parts[i] = fmt.Sprintf("%s %#x", name, e.Value)
	}
	return strings.Join(parts, " ")
}

func (Auxv) value() {}

func decodeAuxv(n Note) (Value, error) {
	a := Auxv{}
	for r := newReader(n); len(r.b) > 0; {
		e := AuxEntry{r.word(), r.word()}
		if r.short {
			return nil, r.err()
		}
		if e.Type == 0 { // AT_NULL
			break
		}
		a = append(a, e)
	}
	return a, nil
}

// FileMap lists the files that were mapped: NT_FILE.
type FileMap struct {
	// PageSize is the unit of the note's offsets; Mappings have bytes.
	PageSize uint64    `json:"pageSize"`
	Mappings []Mapping `json:"mappings"`
}

// Mapping is a part of a file in the process's memory: [Start, End).
type Mapping struct {
	Start  uint64 `json:"start"`
	End    uint64 `json:"end"`
	Offset uint64 `json:"offset"` // in the file, in bytes
	Path   string `json:"path"`
}

// String reads "0x400000-0x401000 0x0 /bin/x; …".
func (m FileMap) String() string {
	parts := make([]string, len(m.Mappings))
	for i, f := range m.Mappings {
		parts[i] = fmt.Sprintf("%#x-%#x %#x %s", f.Start, f.End, f.Offset, f.Path)
	}
	return strings.Join(parts, "; ")
}

func (FileMap) value() {}

// decodeFileMap reads the output of fill_files_note (fs/binfmt_elf.c).
func decodeFileMap(n Note) (Value, error) {
	r := newReader(n)
	count := r.word()
	m := FileMap{PageSize: r.word()}
	if count > uint64(len(r.b)/(3*n.word())) {
		return nil, fmt.Errorf("%d mappings don't fit %d bytes", count, len(n.Desc))
	}
	m.Mappings = make([]Mapping, count)
	for i := range m.Mappings {
		m.Mappings[i] = Mapping{Start: r.word(), End: r.word(), Offset: r.word() * m.PageSize}
	}
	for i := range m.Mappings {
		m.Mappings[i].Path = r.cstring()
	}
	return m, r.err()
}
