// Functions that are inlined in each other, and two that are not.
static inline __attribute__((always_inline)) int inner(int x) {
	volatile int y = x * 3;
	if (y > 10)
		y += x;
	return y;
}
static inline __attribute__((always_inline)) int middle(int x) { return inner(x) +
	inner(x + 1); }
__attribute__((noinline)) int outer(int x) {
	int sum = 0;
	for (int i = 0; i < x; i++)
		sum += middle(i);
	return sum;
}
int entry(int x) { return outer(x) + middle(x); }
