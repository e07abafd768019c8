// Probes without a library, for compiling to objects of other machines.
#include <sys/sdt.h>

struct pair {
	char c;
	short s;
	int i;
	long l;
};

extern int outside;
int counter = 3;
static long hidden;
static volatile char bytes[64];
long table[8];
__thread int local;
static double real;

int helper(int);

void globals(void) { hidden = counter; real = counter; DTRACE_PROBE6(o, globals, counter, hidden, table[3], outside, &counter, bytes[5]); }
void indexed(int i, struct pair *p) { DTRACE_PROBE6(o, indexed, table[i], p[i].c, p[i].s, p[i].i, p->l, i); }
void constants(void) { DTRACE_PROBE5(o, constants, 1, -2, 0x7fffffffffffffffLL, (char)-3, "text"); }
void thread(void) { DTRACE_PROBE2(o, thread, local, &local); }
void floats(float a, double b, float *p) { DTRACE_PROBE5(o, floats, a, b, *p, 0.5, real); }
void names(void) { DTRACE_PROBE2(o, names, __func__, names); }
void many(char a, short b, int c, long d, unsigned char e, unsigned short f, unsigned g, unsigned long h)
{
	DTRACE_PROBE12(o, many, a, b, c, d, e, f, g, h, a + b, c + d, e * 3, helper(g));
}
