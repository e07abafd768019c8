// Fires app:signed as often as its argument says for every byte that it reads,
// and prints nanoseconds: the peer of BenchmarkFireTraced, which builds it with
// the system's cc.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

unsigned short app_signed_semaphore __attribute__((section(".probes")));

int main(int argc, char **argv)
{
	long n = atol(argv[1]);
	struct timespec a, b;

	while (getchar() != EOF) {
		clock_gettime(CLOCK_MONOTONIC, &a);
		for (long i = 0; i < n; i++)
			if (*(volatile unsigned short *)&app_signed_semaphore)
				DTRACE_PROBE4(app, signed, (signed char)i, (short)i, (int)i, i);
		clock_gettime(CLOCK_MONOTONIC, &b);
		printf("%ld\n", (b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec);
		fflush(stdout);
	}
	return 0;
}
