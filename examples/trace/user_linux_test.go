package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// source is a program whose functions are called 23 times when it reads a byte.
const source = `
#include <unistd.h>
#define N __attribute__((noinline, noipa))
N long fails_long(long id) { return id % 2 ? -1 : 7; }
N int fails_int(int id) { return id % 2 ? -1 : 7; }
N int say(const char *text, int n) { return text[n]; }
char text[] = "_eapot";
int main(void) {
	char c;
	text[0] = 't'; // memory that is not resident cannot be read
	if (read(0, &c, 1) != 1) return 1;
	for (int i = 0; i < 46; i++)
		fails_long(i), fails_int(i), say(text + i % 2, 3);
	write(1, &c, 1);
	return read(0, &c, 1);
}
`

// userProgram compiles the program, with these flags.
func userProgram(t *testing.T, flags ...string) (path string) {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.Tool("gcc"))
	dir := t.TempDir()
	file := filepath.Join(dir, "prog.c")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "prog")
	build := testenv.Command(t, "gcc", append(flags, "-O1", "-o", path, file)...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return path
}

// userLines runs the tool on the program, and returns the number of lines with that message.
func userLines(t *testing.T, path, message, probe string) int {
	t.Helper()
	child := tooltest.StartProgram(t, path)
	args := []string{"-p", strconv.Itoa(child.PID), strings.ReplaceAll(probe, "PROG", path)}
	out := tooltest.Live(t, run, args, child.Work)
	n := strings.Count(out, " "+message+"\n")
	if n == 0 {
		t.Log(out)
	}
	return n
}

// refused returns the error of the tool for a probe of the program.
func refused(t *testing.T, path, probe string) string {
	t.Helper()
	err := run(t.Context(), []string{strings.ReplaceAll(probe, "PROG", path)}, tool.NewOutput(os.Stdout))
	if err == nil {
		t.Fatalf("%s: no error", probe)
	}
	return err.Error()
}

// TestNegativeReturns: "retval < 0" of a function that returns long or int was never true,
// silently: a register has no sign.
func TestNegativeReturns(t *testing.T) {
	path := userProgram(t)
	for _, f := range []string{"fails_long (int64)", "fails_long (long)", "fails_int (int32)", "fails_int (int)"} {
		f, cast, _ := strings.Cut(f, " ")
		if n := userLines(t, path, "-1", "ur:PROG:"+f+" /"+cast+`retval < 0/ "%d", `+cast+"retval"); n != 23 {
			t.Errorf("%s: %d calls of 23", f, n)
		}
	}
	for condition, of := range map[string]string{
		"retval < 0": "retval", "pid && retval >= 0": "retval", "0 > (uint32)retval": "(uint32)retval",
	} {
		want := of + " is an unsigned number: it is never below 0; (int64)" + of + ", or (int32)" + of + " of an int, is signed"
		if got := refused(t, path, "ur:PROG:fails_long /"+condition+"/"); !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestPatternsCountRegisters: functions of a pattern differ in their arguments. Numbers are
// registers of each, as without DWARF, and no error because one has fewer arguments.
func TestPatternsCountRegisters(t *testing.T) {
	typed := userProgram(t, "-g")
	if n := userLines(t, typed, "0", `u:PROG:fails_* "%d", arg1 & 0`); n != 2*46 {
		t.Errorf("%d calls of %d", n, 2*46)
	}
}

// TestUserText: str of an argument without a type read the kernel's memory, and nothing was
// there. The text is read to a length that is another argument, too.
func TestUserText(t *testing.T) {
	path := userProgram(t)
	for probe, want := range map[string]string{
		`u:PROG:say "%s", str(arg0)`:                 "teapot",
		`u:PROG:say "%s", str(arg0 + 2)`:             "apot",
		`u:PROG:say "%s", str(arg0, arg1)`:           "tea",
		`u:PROG:say "%s", str(uptr(arg0), arg1 - 2)`: "t",
		`u:PROG:say "%s", str(arg0, 2)`:              "te",
		`u:PROG:say /str(arg0) == "teapot"/ "it is"`: "it is",
	} {
		if n := userLines(t, path, want, probe); n != 23 {
			t.Errorf("%s: %q %d times of 23", probe, want, n)
		}
	}
}

// TestArgumentsByName: a named argument of a user function was unknown, although the file's
// DWARF has it, and the message began with a line of the tool's source.
func TestArgumentsByName(t *testing.T) {
	path := userProgram(t, "-g")
	if n := userLines(t, path, "tea", `u:PROG:say "%s", str(args.text, args.n)`); n != 23 {
		t.Errorf("%d calls of 23", n)
	}
	got := refused(t, path, `u:PROG:say "%d", args.m`)
	if strings.Contains(got, ".go:") || !strings.Contains(got, ": column ") || !strings.Contains(got, "Can't find function parameter m") {
		t.Errorf("%s", got)
	}
}

// TestGoText: text of a Go program was read beyond its end, because it has a length instead of
// a NUL there. Numbers of arguments mean the same with and without debug information.
func TestGoText(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.Go)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(`package main

import "os"

//go:noinline
func greet(s string, n int) string { return s[:n] }

func main() {
	b := make([]byte, 1)
	os.Stdin.Read(b)
	for i := range 46 {
		greet("teapot"[i%2:4], 2)
	}
	os.Stdout.Write(b)
	os.Stdin.Read(b)
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []string{"", "-w"} {
		path := filepath.Join(dir, "prog"+flags)
		build := testenv.Command(t, "go", "build", "-buildvcs=false", "-ldflags="+flags, "-o", path, "main.go")
		build.Dir = dir
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
		probes := map[string]string{`u:PROG:main.greet "%s %d", str(arg0, arg1), arg2`: "teap 2"}
		if flags == "" {
			probes[`u:PROG:main.greet "%s %d", str(args.s.str, args.s.len), args.n`] = "teap 2"
			probes[`ur:PROG:main.greet "%s", str(retval, reg("bx"))`] = "te"
			const want = "unsupported format specifier for type 'struct string': d"
			if got := refused(t, path, `u:PROG:main.greet "%d", args.s`); !strings.Contains(got, want) {
				t.Errorf("%s, want %s", got, want)
			}
		}
		for probe, want := range probes {
			if n := userLines(t, path, want, probe); n != 23 {
				t.Errorf("%s: %q %d times of 23", probe, want, n)
			}
		}
	}
}
