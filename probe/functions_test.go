package probe

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

const splits = `
__attribute__((noinline, cold)) void rare(const char *s) { __asm__ volatile("" : : "r"(s)); }
__attribute__((noinline)) int parted(int n, int *p) {
	if (n % 7 == 3) { rare("a"); rare("b"); *p += n; rare("c"); }
	return n + *p;
}
int main(int argc, char **argv) { return parted(argc, &argc); }
`

// TestReturnOfSplitParts: what a function jumps to has no return address. "uretprobe:prog:parted*"
// probed the return of parted.cold too, which overwrote what lay on the program's stack.
func TestReturnOfSplitParts(t *testing.T) {
	testenv.Need(t, testenv.Tool("gcc"))
	dir := t.TempDir()
	src := filepath.Join(dir, "a.c")
	if err := os.WriteFile(src, []byte(splits), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := testenv.Command(t, "gcc", "-O2", "-o", filepath.Join(dir, "a"), src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	env := NewEnv(&EnvOptions{Root: os.DirFS(dir), Release: "6.12.0", Features: probetest.Features()})
	sites := func(target Target, o *Options) string {
		p, err := Resolve(env, []Target{target}, o)
		if err != nil {
			return err.Error()
		}
		var names []string
		for i := range p.Programs {
			for _, s := range p.Programs[i].Sites {
				names = append(names, s.Symbol)
			}
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	const both = "parted parted.cold"
	if got := sites(Uprobe{Path: "/a", Symbol: "parted*"}, nil); got != both {
		t.Fatalf("the compiler made %s", got)
	}
	if got := sites(Uretprobe{Path: "/a", Symbol: "parted*"}, nil); got != "parted" {
		t.Errorf("returns of %s", got)
	}
	if got := sites(Uprobe{Path: "/a", Symbol: "parted*"}, &Options{EntryReturn: true}); got != "parted" {
		t.Errorf("entries and returns of %s", got)
	}
	if got := sites(Uretprobe{Path: "/a", Symbol: "parted.cold"}, nil); !strings.Contains(got, "does not return") {
		t.Error(got)
	}
	for pattern, want := range map[string]string{"uprobe:/a:parted*": both, "uretprobe:/a:parted*": "parted"} {
		var got []string
		list, _ := List(pattern, &ListOptions{Env: env})
		for m := range list {
			got = append(got, m.Target.word())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q", pattern, got)
		}
	}
}
