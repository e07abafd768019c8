volatile int v;

static inline __attribute__((always_inline)) int inner(int x) {
	v = x;
	return v * 3 + 1;
}

static inline __attribute__((always_inline)) int middle(int x) {
	return inner(x) -
		inner(x + 2);
}

int outer(int x) {
	return middle(x) + v;
}

void _start(void) {
	outer(1);
}
