package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/compatbuild"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// intoEnv names the file that a work executes.
const intoEnv = "EXECSNOOP_INTO"

// execs are works that execute a program in their own process.
var execs = map[string]func(){
	"execve":   func() { execInto() },
	"thread":   func() { go execInto(); select {} },
	"execveat": execveat,
}

// after are the environment of what is executed.
var after = []string{afterEnv + "=1"}

func execInto() {
	runtime.LockOSThread() // of a goroutine: not the process's first thread
	syscall.Exec(os.Getenv(intoEnv), []string{"name", "first"}, after)
}

// execveat executes the file by its name in its directory, which fails for a wrong name, and
// then by a descriptor alone.
func execveat() {
	into := os.Getenv(intoEnv)
	dir, _ := unix.Open(filepath.Dir(into), unix.O_PATH, 0)
	file, _ := unix.Open(into, unix.O_PATH, 0)
	argv, _ := syscall.SlicePtrFromStrings([]string{"name", "first"})
	envp, _ := syscall.SlicePtrFromStrings(after)
	call := func(fd int, name string, flags uintptr) {
		path, _ := syscall.BytePtrFromString(name)
		unix.RawSyscall6(unix.SYS_EXECVEAT, uintptr(fd), uintptr(unsafe.Pointer(path)),
			uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envp[0])), flags, 0)
	}
	unix.Dup2(dir, 20)
	unix.Dup2(file, 21)
	call(20, "none", 0)
	call(21, "", unix.AT_EMPTY_PATH)
}

type row struct {
	PID, Ret int
	Args     string
}

// rows runs the tool while a child works, and returns the child's rows.
func rows(t *testing.T, child *tooltest.Child) (out []row) {
	t.Helper()
	text := tooltest.Live(t, run, []string{"-json", "-x", "-P", strconv.Itoa(os.Getpid())}, child.Work)
	for _, r := range tooltest.Objects[row](t, text) {
		if r.PID == child.PID {
			r.PID = 0
			out = append(out, r)
		}
	}
	return out
}

// equal fails the test unless the rows are those of results and lines.
func equal(t *testing.T, got []row, want ...row) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("rows:\n%+v, want:\n%+v", got, want)
	}
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// TestExecThread: an exec by another thread than the process's first, whose id it takes.
func TestExecThread(t *testing.T) {
	t.Setenv(intoEnv, self(t))
	equal(t, rows(t, tooltest.Start(t, "thread")), row{Args: self(t) + " first"})
}

// TestExecveat: execveat is shown, with the file as the kernel names it. It was not.
func TestExecveat(t *testing.T) {
	t.Setenv(intoEnv, self(t))
	equal(t, rows(t, tooltest.Start(t, "execveat")), row{Ret: -2, Args: "/dev/fd/20/none first"},
		row{Args: "/dev/fd/21 first"})
}

// TestExec32: each exec has its own arguments, also from a 64-bit program into a 32-bit one
// and back. The first was not shown, and the second had the arguments of the first.
func TestExec32(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF, compatbuild.Runs)
	into64 := compatbuild.Write(t, compatbuild.Program(runtime.GOARCH,
		// A program's arguments can be read when they are in memory, as a call before has them.
		compatbuild.Call{Name: "access", Args: []any{"/", 0}},
		compatbuild.Call{
			Name: "execve", Args: []any{self(t), []string{"name", "second", "third"}, after},
		}))
	t.Setenv(intoEnv, into64)
	equal(t, rows(t, tooltest.Start(t, "execve")), row{Args: into64 + " first"},
		row{Args: self(t) + " second third"})
}

// TestExec32Failed: the calls of a 32-bit program that fail, and its execveat.
func TestExec32Failed(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF, compatbuild.Runs)
	end := compatbuild.Write(t, compatbuild.Program(runtime.GOARCH, compatbuild.Framed()[1:]...))
	dir, argv := filepath.Dir(end), []string{"name", "a word"}
	const path = 0o10000000 // O_PATH
	image := compatbuild.Program(runtime.GOARCH, compatbuild.Framed(
		compatbuild.Call{Name: "execve", Args: []any{"/nowhere/32", argv, 0}, Times: 7},
		compatbuild.Call{Name: "open", Args: []any{dir, path, 0}, Save: true},
		compatbuild.Call{Name: "dup2", Args: []any{compatbuild.Saved{}, 20}},
		compatbuild.Call{Name: "execveat", Args: []any{20, "none", argv, 0, 0}, Times: 5},
		compatbuild.Call{Name: "execveat", Args: []any{20, filepath.Base(end), argv, 0, 0}},
	)...)
	want := slices.Repeat([]row{{Ret: -2, Args: "/nowhere/32 a word"}}, 7)
	want = append(want, slices.Repeat([]row{{Ret: -2, Args: "/dev/fd/20/none a word"}}, 5)...)
	want = append(want, row{Args: "/dev/fd/20/" + filepath.Base(end) + " a word"})
	equal(t, rows(t, tooltest.StartProgram(t, compatbuild.Write(t, image))), want...)
}
