package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"pipes": func() {
		for range 23 {
			if err := unix.Pipe2(make([]int, 2), 0); err != nil { // stay open
				panic(err)
			}
		}
	}})
}

// 23 blocks of 100 bytes are kept, by malloc, calloc, realloc and
// posix_memalign; as many are freed, and one is grown by realloc and then freed.
const source = `
#include <stdio.h>
#include <stdlib.h>
void *kept[23];
void __attribute__((noinline)) keep(void) {
	for (int i = 0; i < 23; i++) {
		switch (i % 4) {
		case 0: kept[i] = malloc(100); break;
		case 1: kept[i] = calloc(10, 10); break;
		case 2: kept[i] = realloc(malloc(7), 100); break;
		case 3: if (posix_memalign(&kept[i], 64, 100)) exit(1);
		}
	}
}
void __attribute__((noinline)) drop(void) {
	void *p[23];
	for (int i = 0; i < 23; i++) p[i] = malloc(50 + i);
	for (int i = 0; i < 23; i++) free(p[i]);
	free(realloc(malloc(10), 100000));
}
int main(void) {
	setbuf(stdin, NULL);
	setbuf(stdout, NULL);
	getchar();
	keep();
	drop();
	putchar('.');
	getchar();
	return 0;
}
`

// ownLibc runs the test again where malloc is in a file that nobody else has mapped.
func ownLibc(t *testing.T) bool {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Uprobes, testenv.Tool("gcc"))
	if !testenv.OwnMounts(t) {
		return false
	}
	testenv.OwnFiles(t, testenv.Libc...)
	return true
}

// leaks compiles the program.
func leaks(t *testing.T) (program string) {
	dir := t.TempDir()
	file := filepath.Join(dir, "leaks.c")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "leaks")
	build := testenv.Command(t, "gcc", "-O1", "-fno-omit-frame-pointer", "-fno-builtin", "-o", program, file)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return program
}

// check fails the test unless the 23 blocks are shown.
func check(t *testing.T, out string) {
	t.Helper()
	blocks, bytes := 0, uint64(0)
	for _, l := range tooltest.Objects[leak](t, out) {
		if i := slices.Index(l.Stack, "keep"); i < 0 || i+1 == len(l.Stack) || l.Stack[i+1] != "main" {
			t.Errorf("stack %q", l.Stack)
		}
		blocks, bytes = blocks+l.Allocs, bytes+l.Bytes
	}
	if blocks != 23 || bytes != 2300 {
		t.Errorf("%d blocks, %d bytes of 23, 2300:\n%s", blocks, bytes, out)
	}
}

// The same program, started by memleak: it waits for what is written to a pipe.
func TestLiveCommand(t *testing.T) {
	testenv.Need(t, testenv.Long)
	if !ownLibc(t) {
		return
	}
	program := leaks(t)
	in, out := program+".in", program+".out"
	for _, fifo := range []string{in, out} {
		if err := unix.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check(t, tooltest.Live(t, run, []string{"-json", "-o", "0", "-c", program + " <>" + in + " >" + out, "1000"}, func() {
		said, err := os.Open(out) // waits for the program
		if err != nil {
			t.Fatal(err)
		}
		defer said.Close()
		if err := os.WriteFile(in, []byte("x"), 0); err != nil {
			t.Error(err)
		}
		if _, err := said.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
	}))
}

// What a child has the kernel allocate, and keeps, is shown by the system call.
func TestLiveKernel(t *testing.T) {
	child := tooltest.Start(t, "pipes")
	out := tooltest.Live(t, run, []string{"-json", "-o", "0", "-T", "100000", "-n", "1000000", "1000"}, child.Work)
	pipes := 0
	for _, l := range tooltest.Objects[leak](t, out) {
		if slices.Contains(l.Stack, "alloc_pipe_info") {
			pipes += l.Allocs
		}
	}
	if pipes < 2*23 { // an object and an array for each
		t.Errorf("%d allocations of 23 pipes", pipes)
	}
}

// Of a program that keeps 23 blocks and frees others, these 23 are shown, by the
// function that has allocated them.
func TestLive(t *testing.T) {
	if !ownLibc(t) {
		return
	}
	program := leaks(t)
	child := testenv.Command(t, program)
	in, said := testenv.Piped(t, child)
	defer child.Wait()
	defer in.Close()

	out := tooltest.Live(t, run, []string{"-json", "-o", "0", "-p", strconv.Itoa(child.Process.Pid), "1000"}, func() {
		io.WriteString(in, "x")
		if _, err := bufio.NewReader(said).ReadByte(); err != nil {
			t.Error(err)
		}
	})
	check(t, out)

	// A Ctrl-C before anything is attached still gets the summary.
	out = tooltest.Interrupted(t, run, "-p", strconv.Itoa(child.Process.Pid))
	if !strings.Contains(out, "Top 10 stacks") {
		t.Errorf("no summary:\n%s", out)
	}
}
