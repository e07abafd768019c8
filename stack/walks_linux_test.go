package stack

import (
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	rulespkg "github.com/borescope/borescope/stack/internal/rules"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

var recordWalks = flag.String("record-walks", "", "record the stacks of programs whose names contain this `text` to testdata/walks")

// walkRecipe is a program to record: an argv, after a source that is compiled by
// a command with "SRC" and "OUT" in it.
type walkRecipe struct {
	name    string
	argv    []string
	compile string
	source  string
	thread  int // which of its threads, 0 the first
	// recursion is how often the program goes through one call in code that gdb
	// can't walk: deep(20) calls itself, main calls down(20), and down(0) sum.
	recursion int
}

// javaSource runs compiled code after a while.
const javaSource = `class Main {
	static long down(int n) { return n > 0 ? down(n - 1) + 1 : sum(); }
	static long sum() { long s = 0; for (int i = 0; i < 9999; i++) s += Math.sin(i) > 0.5 ? 1 : 2; return s; }
	public static void main(String[] a) { long s = 0; while (s >= 0) s += down(20); }
}`

// walkRecipes are the programs of testdata/walks. Each is stopped at random.
var walkRecipes = []walkRecipe{
	{name: "bash-deep", argv: stacktest.Workloads[0].Argv},
	{name: "bash-expand", argv: []string{"bash", "-c", `while :; do for i in {1..300}; do y="${x//a/bb}$(( i * 3 % 7 ))"; done; done`}},
	{name: "bash-read", argv: []string{"bash", "-c", "read x"}},
	{name: "bash-wait", argv: []string{"bash", "-c", "sleep 60; :"}},
	{name: "dash", argv: []string{"dash", "-c", "f() { while :; do :; done; }; f"}},
	{name: "python3-deep", argv: stacktest.Workloads[1].Argv},
	{name: "python3-sort", argv: []string{"python3", "-c", "while True: sorted(range(3000), key=lambda v: -v)"}},
	{name: "python3-regex", argv: []string{"python3", "-c", "import re\nwhile True: re.sub('(a|b)+c', 'x', 'abab' * 200)"}},
	{name: "python3-sha", argv: []string{"python3", "-c", "import hashlib\nwhile True: hashlib.sha512(b'x' * 100000).digest()"}},
	{name: "python3-sleep", argv: []string{"python3", "-c", "import time\ntime.sleep(60)"}},
	{name: "python3-zlib", argv: []string{"python3", "-c", "import zlib\nwhile True: zlib.compress(bytes(range(256)) * 400)"}},
	{name: "perl-deep", argv: stacktest.Workloads[2].Argv},
	{name: "perl-regex", argv: []string{"perl", "-e", `while (1) { my $s = "ab" x 500; $s =~ s/(a|b)+?b/x/g }`}},
	{name: "xz", argv: []string{"sh", "-c", "cat /dev/urandom | exec xz -9 -T1 > /dev/null"}},
	{name: "openssl-rsa", argv: stacktest.Workloads[4].Argv},
	{name: "openssl-sha", argv: []string{"openssl", "speed", "-seconds", "60", "sha256"}},
	{name: "openssl-ecdh", argv: []string{"openssl", "speed", "-seconds", "60", "ecdhx25519"}},
	{name: "openssl-aes", argv: []string{"openssl", "speed", "-seconds", "60", "-evp", "aes-128-gcm"}},
	{name: "gzip", argv: []string{"sh", "-c", "cat /dev/urandom | exec gzip -9 > /dev/null"}},
	{name: "bzip2", argv: []string{"sh", "-c", "cat /dev/urandom | exec bzip2 > /dev/null"}},
	{name: "zstd", argv: []string{"sh", "-c", "cat /dev/urandom | exec zstd -19 --single-thread > /dev/null"}},
	{name: "mawk", argv: []string{"mawk", "BEGIN { while (1) { x = x \"a\"; if (length(x) > 200) { gsub(/a/, \"b\", x); x = \"\" } } }"}},
	{name: "sed", argv: []string{"sh", "-c", "yes aaaaaaaaaabc | exec sed -E 's/(a|b)+c/x/g' > /dev/null"}},
	{name: "grep", argv: []string{"sh", "-c", `yes abcabcabcabd | exec grep -E '(abc)*\1e' > /dev/null`}},
	{name: "sort", argv: []string{"sh", "-c", "seq 3000000 -1 1 | exec sort --parallel=1 -S 300M > /dev/null"}},
	{name: "bc", argv: []string{"sh", "-c", "echo 'scale=20000; 4*a(1)' | exec bc -l"}},
	{name: "sqlite3", argv: []string{"sqlite3", ":memory:", "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT count(*) FROM c WHERE x % 7 = 3"}},
	{name: "ruby", argv: []string{"ruby", "-e", "def f(n) n == 0 ? (1..99).sum : f(n - 1) end; loop { f(20) }"}},
	{name: "tclsh", argv: []string{"sh", "-c", "echo 'proc f n { if {$n} { f [expr {$n-1}] } else { lsort -integer {3 1 2} } }; while 1 { f 20 }' | exec tclsh"}},
	{name: "git", argv: []string{"git", "cat-file", "--batch"}},
	{name: "cat", argv: []string{"cat", "-n"}},
	{name: "sleep", argv: []string{"sleep", "60"}},
	{name: "gdb", argv: []string{"gdb", "-nx", "-q"}},
	{name: "gdb-python", argv: []string{"gdb", "-nx", "-batch", "-ex", "python\nwhile True: gdb.parse_and_eval('1 + 2 * 3')"}},
	{name: "make", argv: []string{"sh", "-c", "echo 'a:; sleep 60' | exec make -f -"}},
	{name: "curl", argv: []string{"curl", "-s", "-T", "-", "file:///dev/null"}},
	{name: "java", compile: "javac -d OUT SRC", source: javaSource, argv: []string{"java", "-cp", "OUT", "Main"}},
	{name: "java-interpreted", compile: "javac -d OUT SRC", source: javaSource, argv: []string{"java", "-Xint", "-cp", "OUT", "Main"}, thread: 1, recursion: 22},
	{name: "node-jit", argv: stacktest.JIT.Argv, recursion: 20},
	{name: "node-idle", argv: []string{"node", "-e", "setTimeout(() => {}, 60000)"}},
	{name: "signals", compile: "gcc -O2 -o OUT SRC", source: `
#include <signal.h>
#include <unistd.h>
static void inner(int s) { pause(); }
static void outer(int s) { raise(SIGUSR2); }
int main(void) { signal(SIGUSR1, outer); signal(SIGUSR2, inner); raise(SIGUSR1); }`},
	{name: "altstack", compile: "gcc -O2 -o OUT SRC", source: `
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static void on(int s) { pause(); }
int main(void) {
	stack_t st = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
	struct sigaction a = {.sa_handler = on, .sa_flags = SA_ONSTACK};
	sigaltstack(&st, 0); sigaction(SIGUSR1, &a, 0); raise(SIGUSR1);
}`},
	{name: "vfork", compile: "gcc -O2 -o OUT SRC", source: `
#include <unistd.h>
int main(void) { if (vfork() == 0) { sleep(60); _exit(0); } }`},
	{name: "recursion", compile: "gcc -O2 -fno-optimize-sibling-calls -o OUT SRC", source: `
#include <unistd.h>
__attribute__((noinline)) int down(int n) { return n ? down(n - 1) + 1 : pause(); }
int main(void) { return down(200); }`},
	{name: "realigned", compile: "gcc -O2 -mavx2 -o OUT SRC", source: `
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) int aligned(int n) {
	char big[n + 1]; __attribute__((aligned(64))) char v[64];
	memset(big, n, n); memset(v, n, 64);
	__asm__ volatile("" :: "r"(big), "r"(v) : "memory");
	return n > 3 ? aligned(n - 1) + v[3] : pause();
}
int main(void) { return aligned(9); }`},
	{name: "exception", compile: "g++ -O2 -o OUT SRC", source: `
#include <unistd.h>
struct held { ~held() { pause(); } };
__attribute__((noinline)) void thrower(int n) { if (n) thrower(n - 1); else throw 1; }
__attribute__((noinline)) void holder() { held h; thrower(3); }
int main() { try { holder(); } catch (int) {} }`},
	{name: "qsort", compile: "gcc -O2 -o OUT SRC", source: `
#include <stdlib.h>
static int v[5000];
static int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(void) { for (;;) { for (int i = 0; i < 5000; i++) v[i] = i * 7919 % 5003; qsort(v, 5000, sizeof *v, compare); } }`},
	{name: "go", compile: "go build -o OUT SRC", source: `
package main
import "runtime"
func init() { runtime.LockOSThread() }
//go:noinline
func down(n int) int { if n > 0 { return down(n-1) + 1 }; s := 0; for i := range 1 << 20 { s += i & n }; return s }
func main() { for { down(20) } }`},
	{name: "compat-signals", compile: "gcc -m32 -O2 -fomit-frame-pointer -o OUT SRC", source: `
#include <signal.h>
#include <unistd.h>
static void inner(int s, siginfo_t *i, void *c) { pause(); }
static void outer(int s) { raise(SIGUSR2); }
int main(void) {
	struct sigaction a = {.sa_sigaction = inner, .sa_flags = SA_SIGINFO};
	sigaction(SIGUSR2, &a, 0);
	signal(SIGUSR1, outer);
	raise(SIGUSR1);
}`},
	{name: "compat-qsort", compile: "gcc -m32 -O2 -fomit-frame-pointer -o OUT SRC", source: `
#include <stdlib.h>
static int v[5000];
static int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(void) { for (;;) { for (int i = 0; i < 5000; i++) v[i] = i * 7919 % 5003; qsort(v, 5000, sizeof *v, compare); } }`},
	{name: "compat-realigned", compile: "gcc -m32 -O2 -mavx2 -o OUT SRC", source: `
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) int aligned(int n) {
	char big[n + 1]; __attribute__((aligned(64))) char v[64];
	memset(big, n, n); memset(v, n, 64);
	__asm__ volatile("" :: "r"(big), "r"(v) : "memory");
	return n > 3 ? aligned(n - 1) + v[3] : pause();
}
int main(void) { return aligned(9); }`},
	{name: "compat-go", compile: "env GOARCH=386 CGO_ENABLED=0 go build -o OUT SRC", source: `
package main
import "runtime"
func init() { runtime.LockOSThread() }
//go:noinline
func down(n int) int { if n > 0 { return down(n-1) + 1 }; s := 0; for i := range 1 << 20 { s += i & n }; return s }
func main() { for { down(20) } }`},
	{name: "compat-thread", compile: "gcc -m32 -O2 -pthread -o OUT SRC", thread: 1, source: `
#include <pthread.h>
#include <unistd.h>
static void *run(void *p) { return (void *)(long)pause(); }
int main(void) { pthread_t t; pthread_create(&t, 0, run, 0); pthread_join(t, 0); }`},
	{name: "rust-abort", compile: "rustc -O -C panic=abort -o OUT SRC", source: `
#[inline(never)] fn down(n: u64) -> u64 { if n == 0 { std::thread::sleep(std::time::Duration::from_secs(60)); 1 } else { std::hint::black_box(down(n - 1)) + 1 } }
fn main() { println!("{}", down(20)); }`},
}

// TestRecordWalks records a stack of each program, if asked to (-record-walks=all
// or a part of a name): with gdb's frames, which ours must be equal to.
func TestRecordWalks(t *testing.T) {
	if *recordWalks == "" {
		return
	}
	testenv.Need(t, testenv.Root, testenv.Arch("amd64"))
	for _, r := range walkRecipes {
		if !strings.Contains(r.name, *recordWalks) && *recordWalks != "all" {
			continue
		}
		t.Run(r.name, func(t *testing.T) { r.record(t) })
	}
}

func (r *walkRecipe) record(t *testing.T) {
	argv := r.argv
	recipe := strings.Join(argv, " ")
	if r.source != "" {
		dir := t.TempDir()
		out, src := filepath.Join(dir, r.name), filepath.Join(dir, "main.c")
		recipe = r.compile + r.source
		switch {
		case strings.HasPrefix(r.compile, "g++"):
			src = filepath.Join(dir, "main.cc")
		case strings.HasPrefix(r.compile, "javac"):
			src = filepath.Join(dir, "main.java")
		case strings.HasPrefix(r.compile, "rustc"):
			src = filepath.Join(dir, "main.rs")
		case strings.Contains(r.compile, "go build"):
			src = filepath.Join(dir, "main.go")
		}
		if err := os.WriteFile(src, []byte(r.source), 0o600); err != nil {
			t.Fatal(err)
		}
		args := strings.Fields(strings.NewReplacer("SRC", src, "OUT", out).Replace(r.compile))
		if b, err := testenv.Command(t, args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		if argv == nil {
			argv = []string{"OUT"}
		}
		argv = slices.Clone(argv)
		for i := range argv {
			argv[i] = strings.Replace(argv[i], "OUT", out, 1)
		}
	}
	pid := r.start(t, argv)
	if r.thread > 0 {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			t.Fatal(err)
		}
		if pid, err = strconv.Atoi(tasks[r.thread].Name()); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		if walk := recordWalk(t, pid, r.recursion); walk != nil {
			walk.Recipe = recipe
			b, err := json.Marshal(walk)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile("testdata/walks/"+r.name+".json", append(b, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		time.Sleep(37 * time.Millisecond)
	}
	t.Error("gdb's frames are others")
}

// start runs the program, which a shell may start, and lets it get to work.
func (r *walkRecipe) start(t *testing.T, argv []string) int {
	cmd := testenv.Command(t, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe() // never written to
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = in.Close(); _ = cmd.Wait() })
	time.Sleep(1500 * time.Millisecond)
	name, _, _ := strings.Cut(r.name, "-")
	for _, pid := range append(stacktest.Children(cmd.Process.Pid), cmd.Process.Pid) {
		if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.HasPrefix(string(comm), name) {
			return pid
		}
	}
	return cmd.Process.Pid
}

// recordWalk stops the process; nil if gdb sees it otherwise. Frames of generated
// code, which gdb gets lost in, it counts.
func recordWalk(t *testing.T, pid, recursion int) (out *recordedWalk) {
	var cache CFICache
	stopped(t, pid, func(r *Regs) {
		mods, err := cache.Modules(pid)
		if err != nil {
			t.Log(err)
		}
		mem := &stacktest.Recorder{Memory: ProcessMemory(pid), Bytes: make(map[uint64]byte)}
		dst := make([]Frame, 4096)
		w := CFIWalker{Modules: mods}
		n, end := w.Walk(dst, r, mem)
		want := stacktest.GDB(t, "-p", strconv.Itoa(pid))
		if want[len(want)-1] == 0 { // above the beginning of a goroutine
			want = want[:len(want)-1]
		}
		oracle := "gdb"
		if end == StopNoRule && n < len(want) {
			oracle, want = "gdb, which goes on by looking at the instructions", want[:n]
		}
		if i := slices.IndexFunc(dst[:n], func(f Frame) bool { m := mods.Find(f.PC); return m != nil && m.Name == "" }); recursion > 0 && i >= 0 && i < len(want) {
			if most := repeated(dst[i:n]); most != recursion || end != StopBottom {
				t.Logf("%v: the same return address %d times, want %d", end, most, recursion)
				return
			}
			oracle = fmt.Sprintf("gdb down to the generated code; the program, which goes through one call %d times there", recursion)
			want = append(want[:i], pcs(dst[i:n])...)
		}
		if got := pcs(dst[:n]); !slices.Equal(got, want) {
			t.Logf("%v: got %#x, gdb %#x", end, got, want)
			return
		}
		out = &recordedWalk{Oracle: oracle, Machine: r.Machine, Regs: make(map[int]uint64), Memory: mem.Runs(), Frames: want, End: end}
		for i := range numRegs {
			if v, ok := r.Reg(i); ok {
				out.Regs[i] = v
			}
		}
		out.Modules = recordModules(mods, dst[:n])
		t.Logf("%d frames, %v", n, end)
	})
	return out
}

// repeated counts the most frequent address among those of one recursion.
func repeated(frames []Frame) (most int) {
	for i := 0; i < len(frames); {
		n := 1
		for i+n < len(frames) && frames[i+n].PC == frames[i].PC {
			n++
		}
		most = max(most, n)
		i += n
	}
	return most
}

// recordModules keeps the rules for the frames' addresses.
func recordModules(mods *Modules, frames []Frame) []recordedModule {
	rules := make(map[*Module]map[uint64]recordedRule)
	for _, f := range frames {
		m := mods.Find(f.LookupPC())
		if m == nil {
			continue
		}
		if rules[m] == nil {
			rules[m] = make(map[uint64]recordedRule)
		}
		if m.CFI == nil {
			continue
		}
		at := f.LookupPC() - m.Bias
		c := m.CFI.rules.Lookup(at)
		if c.CFA.Kind == rulespkg.CFANone {
			continue
		}
		r := recordedRule{Addr: at, CFA: [5]int32{int32(c.How), int32(c.CFA.Kind), int32(c.CFA.Reg), c.CFA.Off, c.CFA.Off2}}
		for _, s := range c.Saved {
			r.Saved = append(r.Saved, [4]int32{int32(s.Num), int32(s.Kind), int32(s.Reg), s.Off})
		}
		rules[m][at] = r
	}
	var out []recordedModule
	for i := range mods.All() {
		m := &mods.All()[i]
		if rules[m] == nil {
			continue
		}
		r := recordedModule{Name: filepath.Base(m.Name), Start: m.Start, End: m.End, Bias: m.Bias}
		for _, at := range slices.Sorted(maps.Keys(rules[m])) {
			r.Rules = append(r.Rules, rules[m][at])
		}
		r.keepExprs(m.CFI)
		out = append(out, r)
	}
	return out
}

// keepExprs numbers the expressions that the rules use anew.
func (m *recordedModule) keepExprs(t *CFITable) {
	keep := func(number *int32) {
		m.Exprs = append(m.Exprs, hex.EncodeToString(t.exprs[*number]))
		*number = int32(len(m.Exprs) - 1)
	}
	for i := range m.Rules {
		r := &m.Rules[i]
		if rulespkg.CFAKind(r.CFA[1]) == rulespkg.CFAExpr {
			keep(&r.CFA[3])
		}
		for j := range r.Saved {
			if k := rulespkg.RegKind(r.Saved[j][1]); k == rulespkg.RegAtExpr || k == rulespkg.RegValExpr {
				keep(&r.Saved[j][3])
			}
		}
	}
}
