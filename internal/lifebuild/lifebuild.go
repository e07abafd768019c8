// Package lifebuild builds programs for tests whose functions are at the same addresses, as those of
// programs that execute each other, of processes that have one number in turn, and of libraries of which one
// takes the place of the other. The functions call getppid, so that each call can be counted by the function
// that makes it. They are machine code of amd64 in ELF files, so that tests in guests have them.
//
//	path := lifebuild.Executed(t, t.TempDir(), "lives", 8)
package lifebuild

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/borescope/borescope/internal/elfbuild"
)

// First and Second are the names of the functions.
const First, Second = "first", "second"

// How often the functions call getppid each time.
const (
	FirstCalls  = 50
	SecondCalls = 40
	ThirdCalls  = 30
)

// Place is where libraries are mapped in turn, and CallOffset the offset of the instruction behind their calls.
const (
	Place      = 0x10000000
	CallOffset = 12
)

const (
	text = 0x401000
	page = 0x1000
)

// functions are the names and what they do.
var functions = []struct {
	name  string
	calls int
}{{First, FirstCalls}, {Second, SecondCalls}}

// Executed writes programs to files with a name and a number from 0 on, each of which calls its function,
// First in the even ones and Second in the others, and then executes the next. It returns the first one's
// path.
func Executed(t testing.TB, dir, name string, programs int) string {
	t.Helper()
	path := func(i int) string { return filepath.Join(dir, name+strconv.Itoa(i)) }
	for i := range programs {
		f := functions[i%2]
		write(t, path(i), f.name, elf.ET_EXEC, func(at func(string) uint32) []byte {
			code := getppids(f.calls)
			if i+1 < programs {
				code = append(code, call(execve, at(path(i+1)))...)
			}
			return append(code, call(exit)...)
		})
	}
	return path(0)
}

// Single writes programs that call the functions First and Second, and returns their paths. Their files have
// a name and the number 0 or 1.
func Single(t testing.TB, dir, name string) (first, second string) {
	t.Helper()
	var paths []string
	for i, f := range functions {
		path := filepath.Join(dir, name+strconv.Itoa(i))
		write(t, path, f.name, elf.ET_EXEC, func(func(string) uint32) []byte {
			return append(getppids(f.calls), call(exit)...)
		})
		paths = append(paths, path)
	}
	return paths[0], paths[1]
}

// Numbered writes a program that runs another one in a process with a number, waits for it and ends: with
// status 1 if another process has the number (clone3's set_tid, Linux 5.5). It returns its path.
func Numbered(t testing.TB, dir string, pid int, run string) string {
	t.Helper()
	path := filepath.Join(dir, "numbered")
	write(t, path, "numbered", elf.ET_EXEC, func(at func(string) uint32) []byte {
		number := at(string(binary.LittleEndian.AppendUint32(nil, uint32(pid))))
		var args []byte // struct clone_args, include/uapi/linux/sched.h
		for _, v := range []uint64{0, 0, 0, 0, sigchld, 0, 0, 0, uint64(number), 1} {
			args = binary.LittleEndian.AppendUint64(args, v)
		}
		ended := slices.Concat(call(wait4, 1<<32-1), call(exit))
		parent := slices.Concat([]byte{0x78, byte(len(ended))}, ended, call(exit, 1))                           // js: refused
		begin := append(call(clone3, at(string(args)), uint32(len(args))), 0x85, 0xc0, 0x74, byte(len(parent))) // test eax, eax; jz
		return slices.Concat(begin, parent, call(execve, at(run)), call(exit, 127))
	})
	return path
}

// Mapped writes a program that maps a library with the function First at Place, calls it, does the same
// with one that has Second, and then calls getppid ThirdCalls times from a function third. It returns its
// path, of a file with that name.
func Mapped(t testing.TB, dir, name string) string {
	t.Helper()
	for _, f := range functions {
		write(t, filepath.Join(dir, f.name+".so"), f.name, elf.ET_DYN, func(func(string) uint32) []byte {
			return append(getppids(f.calls), 0xc3) // ret
		})
	}
	path := filepath.Join(dir, name)
	write(t, path, "third", elf.ET_EXEC, func(at func(string) uint32) (code []byte) {
		for _, f := range functions {
			code = append(code, mapped(at(filepath.Join(dir, f.name+".so")))...)
		}
		return slices.Concat(code, getppids(ThirdCalls), call(exit))
	})
	return path
}

// System calls of amd64.
const (
	open    = 2
	mmap    = 9
	execve  = 59
	exit    = 60
	wait4   = 61
	getppid = 110
	clone3  = 435
)

const sigchld = 17

// getppids is code that calls getppid n times.
func getppids(n int) []byte {
	code := binary.LittleEndian.AppendUint32([]byte{0xbb}, uint32(n)) // mov ebx, n
	return append(code,
		0xb8, getppid, 0, 0, 0, // mov eax, getppid
		0x0f, 0x05, // syscall
		0xff, 0xcb, // dec ebx
		0x75, 0xf5) // jnz
}

// call is code that makes a system call with up to four arguments.
func call(number uint32, args ...uint32) (code []byte) {
	values := append([]uint32{number}, args...)
	for i, load := range [][]byte{{0xb8}, {0xbf}, {0xbe}, {0xba}, {0x41, 0xba}} { // eax, edi, esi, edx, r10d
		value := uint32(0)
		if i < len(values) {
			value = values[i]
		}
		code = binary.LittleEndian.AppendUint32(append(code, load...), value)
	}
	return append(code, 0x0f, 0x05) // syscall
}

// mapped is code that maps the code of a file, whose path is at an address, at Place, and calls it.
func mapped(path uint32) []byte {
	const readExec, privateFixed = 5, 0x12
	descriptor := []byte{0x49, 0x89, 0xc0}                               // mov r8, rax
	offset := binary.LittleEndian.AppendUint32([]byte{0x41, 0xb9}, page) // mov r9d, page
	address := binary.LittleEndian.AppendUint32([]byte{0xb8}, Place)     // mov eax, Place
	return slices.Concat(call(open, path), descriptor, offset, call(mmap, Place, page, readExec, privateFixed),
		address, []byte{0xff, 0xd0}) // call rax
}

// write writes a file with the code that make returns and the texts of which that asks for the addresses.
func write(t testing.TB, file, function string, typ elf.Type, code func(at func(string) uint32) []byte) {
	t.Helper()
	const room = 0x400
	var texts []byte
	does := code(func(s string) uint32 {
		at := text + room + len(texts)
		texts = append(texts, s+"\x00"...)
		return uint32(at)
	})
	f := elfbuild.File{
		Class: elf.ELFCLASS64, Order: binary.LittleEndian, Type: typ, Machine: elf.EM_X86_64, Entry: text,
		Sections: []elfbuild.Section{{
			Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: text,
			Data: slices.Concat(does, make([]byte, room-len(does)), texts), Align: page,
		}},
		Symbols: []elfbuild.Symbol{{
			Name: function, Value: text, Size: uint64(len(does)), Type: elf.STT_FUNC, Bind: elf.STB_GLOBAL, Section: 1,
		}},
	}
	if err := os.WriteFile(file, f.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
}
