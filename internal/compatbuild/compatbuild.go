// Package compatbuild builds programs for tests that make system calls of the 32-bit ABI: i386's
// on amd64, arm's (EABI) on arm64. They are machine code in an ELF file, so that tests in guests
// have them, which have neither a compiler nor a C library.
//
//	image := compatbuild.Program("amd64", compatbuild.Call{Name: "getpid", Times: 7})
//	path := compatbuild.Write(t, image)
package compatbuild

import (
	"debug/elf"
	"encoding/binary"
	"fmt"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/probe/sysnames"
)

// Call is a system call that a program makes.
type Call struct {
	// Name is its name, as sysnames.Syscall returns it for the ABI sysnames.Compat.
	Name string
	// Args are up to six arguments: an int, Saved, or what is put into memory, of which the
	// argument is the address: a string, which gets a NUL at its end, a []byte, or a []string
	// as an array of addresses with a null pointer at its end, like argv.
	Args []any
	// Save keeps the result, which is from then on the value of Saved.
	Save bool
	// Times is how often the call is made; 0 means once.
	Times int
}

// Saved is an argument: the result of the last call with Save.
type Saved struct{}

// Program returns a 32-bit program that makes calls and then ends with status 0. arch is amd64
// or arm64, the architecture of the kernel that runs it.
func Program(arch string, calls ...Call) []byte {
	b := newBuilder(arch)
	b.class, b.machine = elf.ELFCLASS32, elf.EM_386
	if arch == "arm64" {
		b.machine = elf.EM_ARM
	}
	return b.image(calls)
}

// Program64 is Program as a 64-bit program of amd64, which makes its calls with int 0x80.
func Program64(calls ...Call) []byte {
	b := newBuilder("amd64")
	b.class, b.machine = elf.ELFCLASS64, elf.EM_X86_64
	return b.image(calls)
}

// Framed returns calls as a program of package tooltest makes them: it waits for a byte of its
// standard input, makes the calls, writes a byte, and waits again.
func Framed(calls ...Call) []Call {
	wait := Call{Name: "read", Args: []any{0, make([]byte, 1), 1}}
	out := append([]Call{wait}, calls...)
	return append(out, Call{Name: "write", Args: []any{1, "\n", 1}}, wait)
}

// Addresses of a program's code and data.
const (
	codeAddr = 0x400000
	dataAddr = 0x800000
)

// builder makes a program's code and data. The first bytes of the data are the saved result.
type builder struct {
	arch    string
	class   elf.Class
	machine elf.Machine
	set     func(reg int, v uint32)
	load    func(reg int)
	trap    func(save bool)
	code    []byte
	data    []byte
}

func newBuilder(arch string) *builder {
	b := &builder{arch: arch, data: make([]byte, 8)}
	switch arch {
	case "amd64":
		b.set, b.load, b.trap = b.setX86, b.loadX86, b.trapX86
	case "arm64":
		b.set, b.load, b.trap = b.setARM, b.loadARM, b.trapARM
	default:
		panic("compatbuild: no 32-bit programs on " + arch)
	}
	return b
}

// nrReg is the register of set for the call's number; those of its arguments are 0 to 5.
const nrReg = 6

func (b *builder) image(calls []Call) []byte {
	for _, c := range append(calls[:len(calls):len(calls)], Call{Name: "exit", Args: []any{0}}) {
		nr, ok := sysnames.SyscallNumber(b.arch, sysnames.Compat, c.Name)
		if !ok {
			panic("compatbuild: no system call " + c.Name)
		}
		args := make([]uint32, len(c.Args))
		for i, a := range c.Args {
			args[i] = b.value(a)
		}
		for range max(c.Times, 1) {
			for i, a := range c.Args {
				if _, saved := a.(Saved); saved {
					b.load(i)
				} else {
					b.set(i, args[i])
				}
			}
			b.set(nrReg, uint32(nr))
			b.trap(c.Save)
		}
	}
	f := elfbuild.File{
		Class: b.class, Type: elf.ET_EXEC, Machine: b.machine, Entry: codeAddr,
		Sections: []elfbuild.Section{
			{
				Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR,
				Addr: codeAddr, Data: b.code,
			},
			{
				Name: ".data", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_WRITE,
				Addr: dataAddr, Data: b.data,
			},
		},
	}
	image := f.Bytes()
	if b.machine == elf.EM_ARM { // e_flags: the kernel runs no program without an EABI version
		binary.LittleEndian.PutUint32(image[36:], 0x05000000)
	}
	return image
}

// value returns an argument's value, and puts into memory what it points to.
func (b *builder) value(arg any) uint32 {
	switch v := arg.(type) {
	case int:
		return uint32(v)
	case Saved:
		return 0
	case string:
		return b.put(append([]byte(v), 0))
	case []byte:
		return b.put(v)
	case []string:
		var addrs []byte
		for _, s := range v {
			addrs = binary.LittleEndian.AppendUint32(addrs, b.value(s))
		}
		return b.put(append(addrs, make([]byte, 4)...))
	}
	panic(fmt.Sprintf("compatbuild: an argument of type %T", arg))
}

// put adds aligned data, and returns its address.
func (b *builder) put(p []byte) uint32 {
	addr := dataAddr + len(b.data)
	b.data = append(b.data, p...)
	b.data = append(b.data, make([]byte, -len(b.data)&7)...)
	return uint32(addr)
}

// x86Regs are ebx, ecx, edx, esi, edi, ebp and, for the number, eax, by their numbers in
// instructions.
var x86Regs = [...]byte{3, 1, 2, 6, 7, 5, 0}

// The encodings are those that mean the same in 32-bit and in 64-bit programs.

func (b *builder) setX86(reg int, v uint32) { // mov reg, v
	b.code = binary.LittleEndian.AppendUint32(append(b.code, 0xb8+x86Regs[reg]), v)
}

func (b *builder) loadX86(reg int) { // mov reg, [dataAddr]
	b.code = append(b.code, 0x8b, 4|x86Regs[reg]<<3, 0x25)
	b.code = binary.LittleEndian.AppendUint32(b.code, dataAddr)
}

func (b *builder) trapX86(save bool) {
	b.code = append(b.code, 0xcd, 0x80) // int 0x80
	if save {                           // mov [dataAddr], eax
		b.code = binary.LittleEndian.AppendUint32(append(b.code, 0x89, 0x04, 0x25), dataAddr)
	}
}

// armRegs are r0 to r5 and, for the number, r7.
var armRegs = [...]uint32{0, 1, 2, 3, 4, 5, 7}

func (b *builder) arm(insns ...uint32) {
	for _, i := range insns {
		b.code = binary.LittleEndian.AppendUint32(b.code, i)
	}
}

func (b *builder) moveARM(r, v uint32) { // movw r, v; movt r, v>>16
	imm := func(n uint32) uint32 { return n>>12&0xf<<16 | r<<12 | n&0xfff }
	b.arm(0xe3000000|imm(v&0xffff), 0xe3400000|imm(v>>16))
}

func (b *builder) setARM(reg int, v uint32) { b.moveARM(armRegs[reg], v) }

func (b *builder) loadARM(reg int) { // ldr reg, [r8]
	b.moveARM(8, dataAddr)
	b.arm(0xe5980000 | armRegs[reg]<<12)
}

func (b *builder) trapARM(save bool) {
	b.arm(0xef000000) // svc 0
	if save {         // str r0, [r8]
		b.moveARM(8, dataAddr)
		b.arm(0xe5880000)
	}
}
