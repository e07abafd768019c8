#define _GNU_SOURCE
#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int compare(const void *a, const void *b) {
	long x = *(const long *)a, y = *(const long *)b;
	return x < y ? -1 : x > y;
}

__attribute__((noinline)) static long sort(int depth) {
	long v[200];
	if (depth > 0)
		return sort(depth - 1) + 1;
	for (int i = 0; i < 200; i++)
		v[i] = (i * 7919L) % 211;
	qsort(v, 200, sizeof *v, compare);
	return v[3];
}

static void work(double seconds) {
	volatile long sum = 0;
	for (double end = now() + seconds; now() < end;)
		sum += sort(5);
}

int main(int argc, char **argv) {
	if (argc > 2 && !strcmp(argv[1], "work")) {
		work(atof(argv[2]) / 1000);
		return 0;
	}
	if (argc < 4)
		return 2;
	double end = now() + atof(argv[3]);
	if (!strcmp(argv[1], "late")) {
		work(1);
		void *lib = dlopen(argv[2], RTLD_NOW);
		long (*f)(long) = lib ? (long (*)(long))dlsym(lib, "work") : 0;
		if (!f) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		while (now() < end)
			f(10000);
		return 0;
	}
	char *child[] = {argv[0], "work", argv[2], 0};
	while (now() < end) {
		pid_t pid;
		if (posix_spawn(&pid, argv[0], 0, 0, child, environ))
			return 1;
		waitpid(pid, 0, 0);
	}
	return 0;
}
