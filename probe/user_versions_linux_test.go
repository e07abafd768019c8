package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

const (
	versionedLibrary = `
__attribute__((noinline)) int f_1(int a) { __asm__ volatile(""); return a; }
__attribute__((noinline)) int f_2(int a) { __asm__ volatile("nop"); return a * 2; }
__attribute__((noinline)) int f_3(int a) { __asm__ volatile("nop; nop"); return a * 3; }
__asm__(".symver f_1,alike@V1");
__asm__(".symver f_2,alike@@V2");
__asm__(".symver f_1,old@V1");
__asm__(".symver f_3,old@V2");
`
	versionedProgram = `
int alike(int), alike1(int);
__asm__(".symver alike1,alike@V1");
int main(void) {
	for (int i = 0; i < 100; i++) { alike(i); alike1(i); alike1(i); alike1(i); }
	return 0;
}
`
)

// TestVersions: of a function's versions its name alone means the default one, as it does for
// the linker; another is meant by NAME@VERSION. It was refused, and the error did not say that.
func TestVersions(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.Tool("gcc"))
	dir := t.TempDir()
	for name, text := range map[string]string{
		"lib.c": versionedLibrary, "main.c": versionedProgram,
		"lib.map": "V1 { global: alike; old; local: *; };\nV2 { global: alike; old; } V1;\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-s", "-o", "libver.so", "lib.c", "-Wl,--version-script=lib.map"},
		{"-o", "program", "main.c", "-L.", "-lver", "-Wl,-rpath," + dir},
	} {
		cmd := testenv.Command(t, "gcc", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	lib := filepath.Join(dir, "libver.so")
	for name, want := range map[string]uint64{"alike": 100, "alike@@V2": 100, "alike@V2": 100, "alike@V1": 300} {
		plan := mustResolve(t, nil, "uprobe:"+lib+":"+name)
		n := loadCounter(t, plan, probetest.Counting{Value: -1})
		l, err := plan.Attach(n.progs, nil)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := testenv.Command(t, filepath.Join(dir, "program")).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := n.read(t, 0).Count; got != want {
			t.Errorf("%s: called %d times, want %d", name, got, want)
		}
		l.Close()
	}
	_, err := Resolve(nil, []Target{mustParse(t, "uprobe:"+lib+":old")}, nil)
	if err == nil || !strings.Contains(err.Error(), "by version or address: old@V1 (0x") || !strings.Contains(err.Error(), "old@V2 (0x") {
		t.Errorf("without a default version: %v", err)
	}
}

// TestMergedLibraries: what glibc 2.34 moved into libc is found there.
func TestMergedLibraries(t *testing.T) {
	const library = "/lib/x86_64-linux-gnu/libpthread.so.0"
	testenv.Need(t, testenv.Arch("amd64"), testenv.File(library), testenv.Tool("nm"))
	out, err := testenv.Command(t, "nm", "-D", library).CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(filepath.Dir(library), "libc.so.6")
	if strings.Contains(string(out), " T pthread_create@@") {
		want = library // an older glibc
	}
	for _, name := range []string{library, "libpthread", "pthread"} {
		plan := mustResolve(t, nil, fmt.Sprintf("uprobe:%s:pthread_create", name))
		p := plan.Programs[0]
		if got := p.Sites[0].Path; !sameFile(t, got, want) {
			t.Errorf("%s: in %s, want %s", name, got, want)
		}
		if want != library && !strings.Contains(p.FallbackReason, "libc") {
			t.Errorf("%s: it does not say why: %q", name, p.FallbackReason)
		}
	}
	if _, err := Resolve(nil, []Target{mustParse(t, "uprobe:libpthread:nosuch")}, nil); err == nil || !strings.Contains(err.Error(), "libpthread") {
		t.Errorf("in neither: %v", err)
	}
	// A pattern, which could mean all of libc, said that the file is stripped, and no more.
	_, err = Resolve(nil, []Target{mustParse(t, "uprobe:libpthread:pthread_c*")}, nil)
	if want != library && (err == nil || !strings.Contains(err.Error(), "use uprobe:libc:pthread_c*")) ||
		want == library && err != nil {
		t.Errorf("a pattern: %v", err)
	}
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := os.Stat(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := os.Stat(b)
	if err != nil {
		t.Fatal(err)
	}
	return os.SameFile(x, y)
}
