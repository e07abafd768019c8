package probe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestDebugFiles: the arguments and lines of a program are those of its own debug information,
// wherever that is: in a debug file that is found by its link, or by the program's name, in split
// parts, in a package of them. They were not known of such programs.
func TestDebugFiles(t *testing.T) {
	testenv.Need(t, testenv.Tool("gcc"), testenv.Tool("objcopy"), testenv.Tool("dwp"), testenv.Arch("amd64"))
	dir := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		cmd := testenv.Command(t, name, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a.c"), []byte(placement), 0o644); err != nil {
		t.Fatal(err)
	}
	build := func(out string, args ...string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(out)), 0o755); err != nil {
			t.Fatal(err)
		}
		run("gcc", append(args, "-O1", "-w", "-o", out, "a.c")...)
	}
	split := func(program, part string) {
		t.Helper()
		run("objcopy", "--only-keep-debug", program, part)
		run("objcopy", "--strip-debug", program)
	}
	build("full", "-g")
	build("linked", "-g")
	if err := os.Mkdir(filepath.Join(dir, ".debug"), 0o755); err != nil {
		t.Fatal(err)
	}
	split("linked", ".debug/linked.debug")
	run("objcopy", "--add-gnu-debuglink=.debug/linked.debug", "linked")
	build("named/prog", "-g")
	split("named/prog", "prog.debug")
	build("dwo4/prog", "-gdwarf-4", "-gsplit-dwarf")
	build("dwo5/prog", "-gdwarf-5", "-gsplit-dwarf")
	build("dwp/prog", "-gdwarf-4", "-gsplit-dwarf")
	run("dwp", "-e", "dwp/prog", "-o", "dwp/prog.dwp")
	if err := os.Remove(filepath.Join(dir, "dwp/prog-a.dwo")); err != nil {
		t.Fatal(err)
	}
	build("moved/prog", "-gdwarf-5", "-gsplit-dwarf")
	if err := os.Rename(filepath.Join(dir, "moved"), filepath.Join(dir, "now")); err != nil {
		t.Fatal(err)
	}
	build("other/prog.debug", "-g", "-Dmain=not_main", "-shared", "-fPIC") // of another build
	describe := func(file string, dirs ...string) string {
		env := NewEnv(&EnvOptions{
			Arch: "amd64", Release: "6.12.0", Features: probetest.Features(), DebugDirs: dirs,
		})
		path := filepath.Join(dir, file)
		var targets []Target
		for _, f := range []string{"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9"} {
			targets = append(targets, Uprobe{Path: path, Symbol: f}, Uretprobe{Path: path, Symbol: f})
		}
		p, err := Resolve(env, append(targets, Uprobe{Path: path, File: "a.c", Line: 9}), &Options{DWARF: true})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			return ""
		}
		var b strings.Builder
		for i := range p.Programs {
			b.WriteString(strings.Join(argStrings(append(p.Programs[i].Args, p.Programs[i].Fields...)), "; ") + "\n")
			if r := p.Programs[i].Ret; r != nil {
				b.WriteString(r.String() + "\n")
			}
		}
		return b.String()
	}
	want := describe("full")
	if strings.Count(want, "struct ii b") != 1 || !strings.Contains(want, "big") {
		t.Fatalf("the arguments are\n%s", want)
	}
	for _, c := range []struct {
		file string
		dirs []string
	}{
		{"linked", nil},
		{"named/prog", []string{"..", "/nonexistent"}},
		{"named/prog", []string{"no", dir}},
		{"named/prog", []string{filepath.Join(dir, "other"), ".."}},
		{"now/prog", nil},
		{"dwo4/prog", nil},
		{"dwo5/prog", nil},
		{"dwp/prog", nil},
	} {
		if got := describe(c.file, c.dirs...); got != want {
			t.Errorf("%s, %q: the arguments are\n%swant\n%s", c.file, c.dirs, got, want)
		}
	}
}
