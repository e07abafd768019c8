package script_test

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe/script"
)

// The programs of TestLives call getppid from a function of their own, which is at the same address in
// each of them, and then do something else. They are machine code, so that guests have them.
const (
	lifeText  = 0x401000
	lifePlace = 0x10000000 // where libraries are mapped
)

// getppids is code that calls getppid n times.
func getppids(n int) []byte {
	code := binary.LittleEndian.AppendUint32([]byte{0xbb}, uint32(n)) // mov ebx, n
	return append(code,
		0xb8, 110, 0, 0, 0, // mov eax, getppid
		0x0f, 0x05, // syscall
		0xff, 0xcb, // dec ebx
		0x75, 0xf5) // jnz
}

// call is code that makes a system call.
func call(number uint32, args ...uint32) (code []byte) {
	args = append(args, 0, 0, 0, 0)
	for i, op := range [][]byte{{0xb8}, {0xbf}, {0xbe}, {0xba}, {0x41, 0xba}} { // eax, edi, esi, edx, r10d
		value := number
		if i > 0 {
			value = args[i-1]
		}
		code = binary.LittleEndian.AppendUint32(append(code, op...), value)
	}
	return append(code, 0x0f, 0x05)
}

// mapped is code that maps a file's code, whose path is at an address, at lifePlace, and calls it.
func mapped(path uint32) (code []byte) {
	const fixed, page, readExec = 0x12, 0x1000, 5
	code = append(call(2, path), 0x49, 0x89, 0xc0, 0x41, 0xb9, 0, 0x10, 0, 0) // open; mov r8, rax; mov r9d, 0x1000
	code = append(code, call(9, lifePlace, page, readExec, fixed)...)
	code = binary.LittleEndian.AppendUint32(append(code, 0xb8), lifePlace) // mov eax, lifePlace
	return append(code, 0xff, 0xd0)                                        // call rax
}

// writeLife writes a program whose function has a name, and whose paths are behind the code that code returns.
func writeLife(t *testing.T, file, function string, typ elf.Type, code func(path func(string) uint32) []byte) {
	t.Helper()
	const room = 0x400
	paths := []byte{}
	does := code(func(s string) uint32 {
		at := lifeText + room + len(paths)
		paths = append(paths, s+"\x00"...)
		return uint32(at)
	})
	text := slices.Concat(does, make([]byte, room-len(does)), paths)
	f := elfbuild.File{
		Class: elf.ELFCLASS64, Order: binary.LittleEndian, Type: typ, Machine: elf.EM_X86_64, Entry: lifeText,
		Sections: []elfbuild.Section{{
			Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: lifeText,
			Data: text, Align: 0x1000,
		}},
		Symbols: []elfbuild.Symbol{{
			Name: function, Value: lifeText, Size: uint64(len(does)), Type: elf.STT_FUNC, Bind: elf.STB_GLOBAL, Section: 1,
		}},
	}
	if err := os.WriteFile(file, f.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
}

// exit is code that ends the program.
func exit() []byte { return call(60) }

// ofFunction are the rows of a map of stacks whose innermost frame is the program's.
var ofFunction = regexp.MustCompile(`(?m)^@\[\n +(\S+?)(?:\+\d+)?\n\]: (\d+)$`)

// TestLives: one number of a process and one address are several functions, of programs that execute each
// other, and of processes that have the number in turn. Each count has the name of the function that ran;
// where one file is mapped in the place of another, none has the name of what did not run. A replay prints
// the same.
func TestLives(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs, testenv.Perf, testenv.Arch("amd64"))
	names := []string{"first", "second"}
	for name, c := range map[string]struct {
		run  func(t *testing.T, dir string) error
		want map[string]int
		said string
	}{
		"executed": {
			run: func(t *testing.T, dir string) error {
				const programs = 8
				path := func(i int) string { return filepath.Join(dir, "lives"+strconv.Itoa(i)) }
				for i := range programs {
					writeLife(t, path(i), names[i%2], elf.ET_EXEC, func(at func(string) uint32) []byte {
						code := getppids(50 - 10*(i%2))
						if i+1 < programs {
							code = append(code, call(59, at(path(i+1)))...)
						}
						return append(code, exit()...)
					})
				}
				return testenv.Command(t, path(0)).Run()
			},
			want: map[string]int{"first": 200, "second": 160},
		},
		"numbered": {
			run: func(t *testing.T, dir string) error {
				pid := 0
				for i := range 6 {
					path := filepath.Join(dir, "lives"+strconv.Itoa(i))
					writeLife(t, path, names[i%2], elf.ET_EXEC, func(func(string) uint32) []byte {
						const read, none = 0, lifeText // which can't be written
						return append(append(call(read, 0, none, 1), getppids(50-10*(i%2))...), exit()...)
					})
					if pid == 0 {
						cmd := testenv.Command(t, path)
						if err := cmd.Run(); err != nil {
							return err
						}
						pid = cmd.Process.Pid
						continue
					}
					if err := runAs(t, pid, path); err != nil {
						return err
					}
				}
				return nil
			},
			want: map[string]int{"first": 150, "second": 120},
		},
		"mapped": {
			run: func(t *testing.T, dir string) error {
				lib := func(i int) string { return filepath.Join(dir, "lib"+strconv.Itoa(i)) }
				for i := range 2 {
					writeLife(t, lib(i), names[i], elf.ET_DYN, func(func(string) uint32) []byte {
						return append(getppids(50-10*i), 0xc3)
					})
				}
				path := filepath.Join(dir, "lives")
				writeLife(t, path, "third", elf.ET_EXEC, func(at func(string) uint32) []byte {
					code := append(mapped(at(lib(0))), mapped(at(lib(1)))...)
					return append(append(code, getppids(30)...), exit()...)
				})
				return testenv.Command(t, path).Run()
			},
			want: map[string]int{"third": 30, "0x1000000c": 90},
			said: "1 addresses have no names: their processes mapped one file and then another there",
		},
	} {
		t.Run(name, func(t *testing.T) {
			const text = `tracepoint:syscalls:sys_enter_getppid /strncmp(comm, "lives", 5) == 0/ { @[ustack(1)] = count(); }`
			ctx, stop := context.WithCancel(t.Context())
			dir, to := t.TempDir(), filepath.Join(t.TempDir(), "recording")
			rec, err := recording.Create(to, nil)
			if err != nil {
				t.Fatal(err)
			}
			p := script.MustCompile(t, text, &script.Options{})
			var out, said strings.Builder
			_, err = p.Run(ctx, &script.RunOptions{Stdout: &out, Stderr: &said, Record: rec, Attached: func() error {
				defer stop()
				return c.run(t, dir)
			}})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for _, row := range ofFunction.FindAllStringSubmatch(out.String(), -1) {
				n, _ := strconv.Atoi(row[2])
				got[row[1]] += n
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%v, want %v:\n%s%s", got, c.want, out.String(), said.String())
			}
			if !strings.Contains(said.String(), c.said) {
				t.Errorf("it said %s, want %s", said.String(), c.said)
			}
			if err := rec.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := recording.Open(os.DirFS(to))
			if err != nil {
				t.Fatal(err)
			}
			var replayed strings.Builder
			if _, err := p.Replay(again, &script.RunOptions{Stdout: &replayed}); err != nil || replayed.String() != out.String() {
				t.Errorf("%v: replayed it prints\n%s\nnot\n%s", err, replayed.String(), out.String())
			}
		})
	}
}

// runAs runs a program, which reads its standard input first, in a process with a number that is free.
func runAs(t *testing.T, pid int, path string) error {
	const last = "/proc/sys/kernel/ns_last_pid"
	for range 1000 {
		if err := os.WriteFile(last, []byte(strconv.Itoa(pid-1)), 0); err != nil {
			return err
		}
		cmd := testenv.Command(t, path)
		in, err := cmd.StdinPipe() // without it, it does nothing
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return err
		}
		if cmd.Process.Pid == pid {
			return errors.Join(in.Close(), cmd.Wait())
		}
		err = cmd.Process.Kill()
		_ = cmd.Wait() // which says that it was killed
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("no process got the number %d", pid)
}
