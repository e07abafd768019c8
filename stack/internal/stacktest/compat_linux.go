package stacktest

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/borescope/borescope/internal/compatbuild"
	"github.com/borescope/borescope/internal/testenv"
)

// GCC32 is the requirement that gcc compiles programs of 32 bits, which this kernel runs: Debian's
// package gcc-multilib.
var GCC32 = testenv.Check("gcc -m32", sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "gcc32")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "main")
	cmd := testenv.Command(nil, "gcc", "-m32", "-x", "c", "-", "-o", path)
	cmd.Stdin = strings.NewReader("#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(string(out)))
	}
	return testenv.Command(nil, path).Run()
}))

// StartChain starts a program of Chain, with 32 bits and without frame pointers. args are more arguments
// of gcc.
func StartChain(t *testing.T, args ...string) int {
	t.Helper()
	testenv.Need(t, GCC32)
	const name = "chain"
	dir := t.TempDir()
	compile(t, Chain, append(args, "-m32", "-fomit-frame-pointer", "-o", filepath.Join(dir, name))...)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return Workload{Name: name, Argv: []string{name}}.Start(t)
}

// Chain is a program whose functions call each other: main, first, second, third and leaf. With SIGNAL
// a signal handler is the one that calls first, and with FLAGS=SA_SIGINFO one of three arguments.
const Chain = `
#include <signal.h>
#include <string.h>
volatile unsigned n;
__attribute__((noipa)) void leaf(int c) { for (int i = 0; i < c; i++) n = n * 31 + i; }
__attribute__((noipa)) int third(int a, int i) { char b[100]; memset(b, a, sizeof b); leaf(20000); n += b[i]; return a + i; }
__attribute__((noipa)) int second(int a) { int r = third(a, 3) + 1; n += r; return r; }
__attribute__((noipa)) int first(int a) { int r = second(a + 2) * 3; n ^= r; return r; }
__attribute__((noipa)) void handler(int a) { for (int i = 0; i < 100; i++) first(a + i); n++; }
int main(void) {
#ifdef SIGNAL
	struct sigaction act = { .sa_handler = handler, .sa_flags = FLAGS };
	sigaction(SIGUSR1, &act, 0);
	for (;;) raise(SIGUSR1);
#endif
	for (int i = 0;; i++) first(i);
}
`

// StartChain32 starts the program of Chain32.
func StartChain32(t *testing.T) int {
	t.Helper()
	testenv.Need(t, compatbuild.Runs)
	path := compatbuild.Write(t, Chain32(runtime.GOARCH))
	t.Setenv("PATH", filepath.Dir(path)+":"+os.Getenv("PATH"))
	name := filepath.Base(path)
	return Workload{Name: name, Argv: []string{name}}.Start(t)
}

// Functions returns a function that names the addresses of a program by its symbols.
func Functions(t *testing.T, path string) func(pc uint64) string {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	return func(pc uint64) string {
		for i := range symbols {
			if s := &symbols[i]; elf.ST_TYPE(s.Info) == elf.STT_FUNC && pc-s.Value < s.Size {
				return s.Name
			}
		}
		return "?"
	}
}

// StartGoChain starts a program of ChainGo, compiled for 386. It skips the test if Go is not installed.
func StartGoChain(t *testing.T) int {
	t.Helper()
	testenv.Need(t, testenv.Arch("amd64"), testenv.Go)
	const name = "gochain"
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(ChainGo), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, "go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, name), source)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=386", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return Workload{Name: name, Argv: []string{name}}.Start(t)
}

// ChainGo is a program of Go like Chain.
const ChainGo = `package main

var n uint32

//go:noinline
func leaf(c int) {
	for i := range c {
		n = n*31 + uint32(i)
	}
}

//go:noinline
func third(a, i int) int {
	var b [100]byte
	for i := range b {
		b[i] = byte(a)
	}
	leaf(20000)
	n += uint32(b[i])
	return a + i
}

//go:noinline
func second(a int) int { r := third(a, 3) + 1; n += uint32(r); return r }

//go:noinline
func first(a int) int { r := second(a+2) * 3; n ^= uint32(r); return r }

func main() {
	for i := 0; ; i++ {
		first(i)
	}
}
`
