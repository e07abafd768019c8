package stacktest

import "runtime"

// These are C programs that spin in coroutines: in work, which is called by coroutine, which was called by
// nothing.
const (
	coroutineWork = `
volatile unsigned long n;
__attribute__((noinline)) void work(void) { for (;;) n++; }
__attribute__((noinline)) void coroutine(void) { work(); n++; }
static char stack[1 << 16] __attribute__((aligned(16)));
`
	CoroutineMakecontext = `
#include <ucontext.h>
` + coroutineWork + `
int main(void) {
	static ucontext_t main, c;
	getcontext(&c);
	c.uc_stack.ss_sp = stack;
	c.uc_stack.ss_size = sizeof stack;
	c.uc_link = &main;
	makecontext(&c, coroutine, 0);
	swapcontext(&main, &c);
	return 0;
}
`
)

// CoroutineBoost begins a stack as Boost.Context does, "" if that is not known for this architecture. Its
// assembly has no call frame information.
var CoroutineBoost = map[string]string{"amd64": coroutineWork + `
asm(
	".text\n"
	".globl begin\n"
	"begin:\n"
	"mov %rdi, %rsp\n"
	"lea finish(%rip), %rax\n"
	"push %rax\n"
	"xor %ebp, %ebp\n"
	"jmp *%rsi\n"
	"finish:\n"
	"xor %rdi, %rdi\n"
	"call _exit\n"
	"hlt\n"
);
void begin(void *sp, void (*f)(void));
int main(void) { begin(stack + sizeof stack, coroutine); }
`}[runtime.GOARCH]
