package stacktest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// StartCompiled compiles a C program to a static executable, so that all its code is mapped
// from the start, and starts it. It skips the test if gcc can't.
func StartCompiled(t *testing.T, name, source string) int {
	t.Helper()
	dir := t.TempDir()
	compile(t, source, "-static", "-fno-pie", "-no-pie", "-o", filepath.Join(dir, name))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return Workload{Name: name, Argv: []string{name}}.Start(t)
}

// StartLazy starts a program that calls functions of a library for the first time all the
// time: the dynamic loader looks them up. It skips the test if gcc can't compile it.
func StartLazy(t *testing.T) int {
	t.Helper()
	const name, functions = "lazy", 100
	dir := t.TempDir()
	var lib, calls strings.Builder
	for i := range functions {
		fmt.Fprintf(&lib, "int function_with_a_rather_long_name_%d(int x) { return x + 1; }\n", i)
		fmt.Fprintf(&calls, "int function_with_a_rather_long_name_%d(int);\n", i)
	}
	calls.WriteString("int call(int x) {\n")
	for i := range functions {
		fmt.Fprintf(&calls, "x = function_with_a_rather_long_name_%d(x);\n", i)
	}
	calls.WriteString("return x; }\n" + lazyMain)
	compile(t, lib.String(), "-shared", "-fPIC", "-o", filepath.Join(dir, "liblazy.so"))
	compile(t, calls.String(), "-Wl,-z,lazy,-z,norelro", "-o", filepath.Join(dir, name),
		filepath.Join(dir, "liblazy.so"))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return Workload{Name: name, Argv: []string{name}}.Start(t)
}

// StartLater starts a program that loads a library after half a second and remains there. It
// skips the test if gcc can't compile it.
func StartLater(t *testing.T) int {
	t.Helper()
	const name = "later"
	dir := t.TempDir()
	lib := filepath.Join(dir, "liblater.so")
	compile(t, "volatile int n; void spin(void) { for (;;) n++; }", "-shared", "-fPIC", "-o", lib)
	compile(t, `
#include <dlfcn.h>
#include <time.h>
volatile int n;
int main(void) {
	for (clock_t end = clock() + CLOCKS_PER_SEC / 2; clock() < end;) n++;
	((void (*)(void))dlsym(dlopen("`+lib+`", RTLD_NOW), "spin"))();
	return n;
}
`, "-o", filepath.Join(dir, name))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return Workload{Name: name, Argv: []string{name}}.Start(t)
}

// Numbered returns a program that runs another one with a number of the caller's choice: its arguments
// are the number, and the program with its own. It ends as that one does. It skips the test if gcc
// can't compile it.
func Numbered(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "numbered")
	compile(t, `
#include <err.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int c, char **v) {
	int32_t pid = atoi(v[1]);
	struct { /* clone_args, include/uapi/linux/sched.h */
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size;
	} args = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1 };
	int status, child = syscall(435, &args, sizeof args); /* clone3 */
	if (child < 0) err(100, "clone3");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(v[2], v + 2);
		err(101, "%s", v[2]);
	}
	if (wait(&status) != child || !WIFEXITED(status)) return 102;
	return WEXITSTATUS(status);
}
`, "-o", path)
	return path
}

// StartAgain starts a program that computes in its function first for 0.4 s of CPU time, then executes
// another one of the same name, which does so in its function second and ends. It skips the test if
// gcc can't compile them.
func StartAgain(t *testing.T) int {
	t.Helper()
	const name = "again"
	dir := t.TempDir()
	for _, fn := range []string{"second", "first"} {
		if err := os.Mkdir(filepath.Join(dir, fn), 0o755); err != nil {
			t.Fatal(err)
		}
		compile(t, `
#include <time.h>
#include <unistd.h>
volatile long n;
__attribute__((noinline)) void FN(void) { for (long i = 0; i < 1000000; i++) n++; }
int main(int c, char **v) {
	for (clock_t end = clock() + 4 * (CLOCKS_PER_SEC / 10); clock() < end;) FN();
	if (c > 1) execl(v[1], "`+name+`", (char *)0);
	return 0;
}
`, "-O1", "-DFN="+fn, "-o", filepath.Join(dir, fn, name))
	}
	t.Setenv("PATH", filepath.Join(dir, "first")+":"+os.Getenv("PATH"))
	return Workload{Name: name, Argv: []string{name, filepath.Join(dir, "second", name)}}.Start(t)
}

// Forks has two children: one that computes, and one that executes the program again to do
// that.
const Forks = `
#include <unistd.h>
volatile int n;
__attribute__((noinline)) void spin(void) { for (;;) n++; }
int main(int c, char **v) {
	if (c > 1 || fork() == 0) spin();
	if (fork() == 0) execl("/proc/self/exe", "forks", "again", (char *)0);
	pause();
	return n;
}
`

// lazyMain forgets again and again where functions are (System V ABI, procedure linkage
// table: the first three entries are the linker's).
const lazyMain = `
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
	long size = 0;
	void **got = 0;
	for (ElfW(Dyn) *d = _DYNAMIC; d->d_tag; d++) {
		if (d->d_tag == DT_PLTRELSZ) size = d->d_un.d_val / sizeof(ElfW(Rela)) * sizeof(void *);
		if (d->d_tag == DT_PLTGOT) got = (void **)d->d_un.d_ptr + 3;
	}
	void *unknown = malloc(size);
	memcpy(unknown, got, size);
	for (int x = 0;; x = call(x)) memcpy(got, unknown, size);
}
`

func compile(t *testing.T, source string, args ...string) {
	t.Helper()
	testenv.Need(t, testenv.Tool("gcc"))
	cmd := testenv.Command(t, "gcc", slices.Concat([]string{"-O2", "-x", "c", "-", "-x", "none"}, args)...)
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		testenv.Need(t, testenv.Got("gcc", fmt.Errorf("%q: %w: %s", args, err, out), "cannot find -l"))
	}
}

// Vfork starts children in the way of posix_spawn, which keeps the return address in a
// register meanwhile.
const Vfork = `
#include <sys/wait.h>
#include <unistd.h>
volatile int n;
__attribute__((noinline)) void start(void) { if (vfork() == 0) _exit(0); n++; }
int main(void) { for (;;) { start(); wait(0); } }
`

// Garbage runs a function whose return address is not an address, as wrong rules find it. It
// was once taken for an interpreter's frame.
const Garbage = `
volatile int n;
void spin(void) { for (;;) n++; }
int main(void) { __asm__("mov $0xf123456789abcde0,%rax\n push %rax\n jmp spin"); return 0; }
`

// Trampoline calls a function through code like that of CPython for -X perf.
const Trampoline = `
__asm__(".text\n.type trampoline,@function\ntrampoline: sub $8,%rsp\n mov $0x1234,%ebp\n call *%rdi\n add $8,%rsp\n ret\n");
void trampoline(void (*f)(void));
volatile int n;
__attribute__((noinline)) void spin(void) { for (;;) n++; }
__attribute__((noinline)) void through(void) { trampoline(spin); n++; }
int main(void) { trampoline(through); return n; }
`
