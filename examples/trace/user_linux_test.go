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
int main(void) {
	char c;
	if (read(0, &c, 1) != 1) return 1;
	for (int i = 0; i < 46; i++)
		fails_long(i), fails_int(i);
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
// silently: its type, which the file's DWARF has, was not used, and a register has no sign.
func TestNegativeReturns(t *testing.T) {
	typed := userProgram(t, "-g")
	for _, f := range []string{"fails_long", "fails_int"} {
		if n := userLines(t, typed, "-1", "ur:PROG:"+f+` /retval < 0/ "%d", retval`); n != 23 {
			t.Errorf("%s: %d calls of 23", f, n)
		}
	}
	plain := userProgram(t)
	if n := userLines(t, plain, "-1", `ur:PROG:fails_long /(long)retval < 0/ "%d", retval`); n != 23 {
		t.Errorf("(long)retval: %d calls of 23", n)
	}
	const want = "retval is an unsigned number of 64 bits: it is never below 0; (long)retval is signed"
	if got := refused(t, plain, "ur:PROG:fails_long /retval < 0/"); !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}
