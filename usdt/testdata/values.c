// Fires probes whose arguments the compiler keeps in as many kinds of places as
// it can be brought to, prints their values, and stops itself after each. The
// live test builds it with every compiler and option that it finds.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/sdt.h>

struct pair {
	char c;
	short s;
	int i;
	long l;
};

int counter = -259;
static long hidden = 0x1122334455667788;
unsigned short narrow = 65000;
static signed char tiny = -7;
long table[8] = {10, 11, 12, 13, 14, 15, 16, 17};
static struct pair pairs[3] = {{1, 2, 3, 4}, {-5, -6, -7, -8}, {9, 10, 11, 12}};
__thread int local = 77;
static double real = 2.5;
volatile int two = 2;

__attribute__((noinline)) static void stop(const char *name)
{
	printf("%s\n", name);
	fflush(stdout);
	raise(SIGSTOP);
}

__attribute__((noinline)) static void globals(void)
{
	DTRACE_PROBE5(values, globals, counter, hidden, narrow, tiny, table[3]);
	stop("globals -259 1234605616436508552 65000 -7 13");
}

__attribute__((noinline)) static void indexed(int i)
{
	DTRACE_PROBE5(values, indexed, table[i], pairs[i].c, pairs[i].s, pairs[i].i, pairs[i - 1].l);
	stop("indexed 12 9 10 11 -8");
}

__attribute__((noinline)) static void arguments(char a, short b, int c, long d, unsigned char e, unsigned short f, unsigned g, unsigned long h)
{
	DTRACE_PROBE8(values, arguments, a, b, c, d, e, f, g, h);
	stop("arguments -1 -2 -3 -4 251 65530 4294967289 18446744073709551608");
}

__attribute__((noinline)) static void fields(struct pair *p)
{
	DTRACE_PROBE4(values, fields, p->c, p->s, p->i, p->l);
	stop("fields -5 -6 -7 -8");
}

__attribute__((noinline)) static void constants(void)
{
	DTRACE_PROBE4(values, constants, 1, -2, 0x7fffffffffffffffL, (char)-3);
	stop("constants 1 -2 9223372036854775807 -3");
}

__attribute__((noinline)) static void thread(void)
{
	DTRACE_PROBE1(values, thread, local);
	stop("thread 77");
}

__attribute__((noinline)) static void floats(float *p)
{
	DTRACE_PROBE3(values, floats, real, *p, 0.5);
	stop("floats 2.5 1.25 0.5");
}

__attribute__((noinline)) static void many(long a, long b, long c, long d, long e, long f)
{
	DTRACE_PROBE12(values, many, a, b, c, d, e, f, a + b, b + c, c + d, d + e, e + f, (int)(f - a));
	stop("many 1 2 3 4 5 6 3 5 7 9 11 5");
}

int main(void)
{
	float f = 1.25f;
	globals();
	indexed(two);
	arguments(-two + 1, -two, -3, -two * 2, 249 + two, 65528 + two, -7u, -8ul);
	fields(&pairs[two - 1]);
	constants();
	thread();
	floats(&f);
	many(two - 1, two, two + 1, two + 2, two + 3, two + 4);
	return 0;
}
