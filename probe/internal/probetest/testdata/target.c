// The workload of probe's live tests: for every byte that it reads from
// standard input it does everything it can do 23 times, and answers with a
// byte. It needs no C library, so that nothing else happens in it.
//
// build.sh makes target-amd64 and target-arm64 of it.

#if defined(__x86_64__)
#define NR_read 0
#define NR_write 1
#define NR_getppid 110
#define NR_exit 60
static long call(long nr, long a, long b, long c) {
	long r;
	__asm__ volatile("syscall" : "=a"(r) : "a"(nr), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return r;
}
#else
#define NR_read 63
#define NR_write 64
#define NR_getppid 173
#define NR_exit 93
static long call(long nr, long a, long b, long c) {
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
}
#endif

#define TIMES 23

// A note of sys/sdt.h's third version, written by hand: see facts of the
// format in package usdt.
#define NOTE(name, sema, args)                                          \
	"990: nop\n"                                                    \
	".pushsection .note.stapsdt,\"\",\"note\"\n"                    \
	".balign 4\n"                                                   \
	".4byte 992f-991f, 994f-993f, 3\n"                              \
	"991: .asciz \"stapsdt\"\n"                                     \
	"992: .balign 4\n"                                              \
	"993: .8byte 990b\n"                                            \
	".8byte _.stapsdt.base\n"                                       \
	".8byte " sema "\n"                                             \
	".asciz \"target\"\n.asciz \"" name "\"\n.asciz \"" args "\"\n" \
	"994: .balign 4\n"                                              \
	".popsection\n"

__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
	".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"
	"_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection\n");

__attribute__((section(".probes"), used)) volatile unsigned short enabled_semaphore;
volatile long watched;
volatile long sink;

__attribute__((noinline)) long add(long a, int b, unsigned char c, const char *s) {
	sink += a + b + c + s[0];
	return a + b;
}

__attribute__((noinline)) long nested(long depth) {
	sink++;
	return depth > 0 ? nested(depth - 1) + 1 : 0;
}

__attribute__((noinline)) static long helper_one(long a) {
	sink += a;
	return a + 1;
}

__attribute__((noinline)) static long helper_two(long a) {
	sink -= a;
	return a - 1;
}

static void markers(long i) {
	int small = (int)-i;
	// Two sites of one probe, whose operands differ in kind, size and sign.
	__asm__ volatile(NOTE("twice", "0", "8@%[a] -4@%[b]") : : [a] "r"(i), [b] "r"(small));
	__asm__ volatile(NOTE("twice", "0", "8@%[a] -4@%[b]") : : [a] "m"(*(volatile long *)&sink), [b] "r"(7));
	if (enabled_semaphore)
		__asm__ volatile(NOTE("guarded", "enabled_semaphore", "8@%[a]") : : [a] "r"(i));
}

static void work(void) {
	for (long i = 0; i < TIMES; i++) {
		add(i, 1000, 7, "text");
		nested(3);
		helper_one(i);
		helper_two(i);
		markers(i);
		watched = i;
		call(NR_getppid, 0, 0, 0);
	}
}

void _start(void) {
	char c;
	while (call(NR_read, 0, (long)&c, 1) == 1) {
		work();
		call(NR_write, 1, (long)"k", 1);
	}
	call(NR_exit, 0, 0, 0);
}
