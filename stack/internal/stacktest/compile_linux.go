package stacktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// StartCompiled compiles a C program to a static executable, so that all its code is mapped
// from the start, and starts it. It skips the test if gcc can't.
func StartCompiled(t *testing.T, name, source string) int {
	t.Helper()
	testenv.Need(t, testenv.Tool("gcc"))
	dir := t.TempDir()
	cmd := testenv.Command(t, "gcc", "-O2", "-static", "-fno-pie", "-no-pie", "-x", "c", "-o",
		filepath.Join(dir, name), "-")
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		testenv.Need(t, testenv.Got("gcc -static", fmt.Errorf("%w: %s", err, out), "cannot find -lc"))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return Workload{Name: name, Argv: []string{name}}.Start(t)
}

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
