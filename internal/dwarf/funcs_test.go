package dwarf

import (
	"strings"
	"testing"
)

// localSource has functions inside functions: methods of classes that are local
// to one that is inlined everywhere, to one that is not, and to a method.
const localSource = `
volatile int sink;
struct A {
	int v;
	__attribute__((always_inline)) int twice(int x) const { return x * v + sink; }
};
static inline __attribute__((always_inline)) int inlined_outer(int n) {
	struct Local {
		A a;
		__attribute__((noinline)) int local_one(int x) { return a.twice(x) + a.twice(x + 1); }
	} l{{n}};
	return l.local_one(n) + l.local_one(n + 2);
}
__attribute__((noinline)) int outer(int n) {
	struct Local {
		A a;
		__attribute__((noinline)) int local_two(int x) { return a.twice(x) - a.twice(x + 1); }
	} l{{n}};
	auto lambda = [&](int x) __attribute__((noinline)) { return l.a.twice(x) + n; };
	return l.local_two(n) + lambda(n + 2);
}
int main(int argc, char **argv) { return inlined_outer(argc) + outer(argc); }
`

// TestLocalFunctions checks the inlined calls of functions that are described inside of
// others, with code or without, and inside of types in these. They were skipped:
// Local::local_one had lines of A::twice and no call of it.
func TestLocalFunctions(t *testing.T) {
	for _, args := range [][]string{
		{"-gdwarf-4"},
		{"-gdwarf-5"},
		{"-gdwarf-4", "-gsplit-dwarf", "-fdebug-types-section"},
		{"-gdwarf-5", "-gsplit-dwarf"},
	} {
		t.Run(strings.Join(args, "_"), func(t *testing.T) {
			path := compileSource(t, "prog.cc", localSource, args...)
			compare(t, path, addresses(t, path, "main", "outer", "local_", "lambda"))
		})
	}
}

// TestSplitTypes reads a .dwo file whose first sections have types only. Not one
// inlined call of such a file was known.
func TestSplitTypes(t *testing.T) {
	path := compileSource(t, "prog.cc", localSource, "-gdwarf-5", "-gsplit-dwarf", "-fdebug-types-section")
	compare(t, path, addresses(t, path, "main", "outer", "local_", "lambda"))
}

// TestStrictDWARF2 checks calls inside of calls that have no addresses, because their code is
// in several places, which DWARF 2 cannot describe.
func TestStrictDWARF2(t *testing.T) {
	path := compileSource(t, "prog.c", `
volatile int sink;
void fail(int) __attribute__((noinline, cold));
void fail(int x) { sink = x; }
static inline __attribute__((always_inline)) int inner(int x) { return x * sink; }
static inline __attribute__((always_inline)) int middle(int x) {
	if (__builtin_expect(x > sink, 0)) {
		fail(inner(x));
		fail(inner(x + 1));
	}
	return inner(x + 2);
}
static inline __attribute__((always_inline)) int top(int x) { return middle(x) + middle(x + 3); }
__attribute__((noinline)) int outer(int x) {
	int sum = 0;
	for (int i = 0; i < x; i++)
		sum += top(i);
	return sum;
}
int main(int argc, char **argv) { return outer(argc); }
`, "-gdwarf-2", "-gstrict-dwarf")
	compare(t, path, addresses(t, path, "main", "outer"))
}
