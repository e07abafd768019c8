package stacktest

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// Lives are programs whose code is at one address at one time and other code at another, and that say
// so: see Told.
type Lives struct {
	// First and Second have the functions of these names at one address. Their arguments are a number of
	// milliseconds to run for and how many programs are to follow, each executed by the one before, then
	// the path of the next and of the one after that, in turns.
	First, Second string
	// Plug runs for a number of milliseconds in each of two libraries, in turns, which it loads and
	// unloads; its arguments are that number, how often, and LibFirst and LibSecond.
	Plug, LibFirst, LibSecond string
}

const livesRun = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#define STRING(s) #s
#define NAME(s) STRING(s)
static uint64_t now(void) {
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}
static void told(const char *name, uint64_t (*f)(uint64_t), int ms) {
	uint64_t from = now();
	f(from + ms * 1000000ull);
	printf("%s %d %lx %llu %llu\n", name, getpid(), (unsigned long)f, (unsigned long long)from, (unsigned long long)now());
	fflush(stdout);
}
`

const livesWork = `
volatile long n;
__attribute__((noinline, aligned(4096) PLACE)) uint64_t FN(uint64_t end) {
	do for (int i = 0; i < 100000; i++) n++; while (now() < end);
	return n;
}
`

// CompileLives compiles them. It skips the test if gcc can't.
func CompileLives(t *testing.T) *Lives { return compileLives(t) }

// CompileLives32 is CompileLives with a Second and a LibSecond of 32 bits. Plug is of no use then.
func CompileLives32(t *testing.T) *Lives {
	t.Helper()
	testenv.Need(t, GCC32)
	return compileLives(t, "-m32")
}

// livesPlace has the functions at one address in programs of 64 and of 32 bits, which begin elsewhere.
var livesPlace = []string{`-DPLACE=, section("lives")`, "-Wl,--section-start=lives=0x10000000"}

// compileLives compiles them, those named second with more arguments of gcc.
func compileLives(t *testing.T, second ...string) *Lives {
	t.Helper()
	dir := t.TempDir()
	l := &Lives{
		First: filepath.Join(dir, "first"), Second: filepath.Join(dir, "second"), Plug: filepath.Join(dir, "plug"),
		LibFirst: filepath.Join(dir, "libfirst.so"), LibSecond: filepath.Join(dir, "libsecond.so"),
	}
	for _, fn := range []string{"first", "second"} {
		place, more := []string{"-DPLACE="}, []string(nil)
		if len(second) > 0 {
			place = livesPlace
		}
		if fn == "second" {
			more = second
		}
		compile(t, livesRun+livesWork+`
int main(int c, char **v) {
	told(NAME(FN), FN, atoi(v[1]));
	int more = atoi(v[2]);
	if (more == 0) return 0;
	char left[16];
	sprintf(left, "%d", more - 1);
	execl(v[3], v[0], v[1], left, v[4], v[3], (char *)0);
	return 1;
}
`, slices.Concat(more, place, []string{"-static", "-fno-pie", "-no-pie", "-DFN=" + fn, "-o", filepath.Join(dir, fn)})...)
		compile(t, livesRun+livesWork, append(more, "-DPLACE=", "-shared", "-fPIC", "-DFN="+fn, "-o", filepath.Join(dir, "lib"+fn+".so"))...)
	}
	compile(t, livesRun+`
int main(int c, char **v) {
	for (int i = 0; i < atoi(v[2]); i++) {
		void *lib = dlopen(v[3 + i % 2], RTLD_NOW);
		const char *name = i % 2 ? "second" : "first";
		told(name, (uint64_t (*)(uint64_t))dlsym(lib, name), atoi(v[1]));
		dlclose(lib);
	}
	return 0;
}
`, "-o", l.Plug)
	return l
}
