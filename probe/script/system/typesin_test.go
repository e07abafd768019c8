package system_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
)

// TestUserTypes: in the probes of a program, types are the program's before they are the kernel's. They
// were only the kernel's.
func TestUserTypes(t *testing.T) {
	testenv.Need(t, testenv.Tool("gcc"))
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.c": `struct file; union u { short s; long l; }; enum color { RED, BLUE = 7 }; typedef unsigned short number;
			struct in { number n; }; struct out { char name[5]; struct in in[2]; enum color c; union u u; struct out *next; };
			long see(struct file *f, struct out *o) { return f && o; }`,
		"b.c": `struct file { signed char mode; }; struct file one; int main(void) { return one.mode; }`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := testenv.Command(t, "gcc", "-g", "-o", "own", "a.c", "b.c")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	own, err := os.ReadFile(filepath.Join(dir, "own"))
	if err != nil {
		t.Fatal(err)
	}
	root := probetest.Root(t)
	root["bin/own"] = &fstest.MapFile{Data: own}
	s := system.New(probe.NewEnv(&probe.EnvOptions{
		Root: root, Arch: "amd64", Release: "6.12.0", Features: probetest.Features(), BTF: probetest.BTF(t),
	}), &system.Options{DWARF: true})
	const probe, kernel = "uprobe:/bin/own:see ", "kprobe:vfs_read "
	for _, test := range []struct{ name, script, want string }{
		{"cast", probe + `{ @ = ((struct out *)arg1).in[1].n; }`, "uint16"},
		{"text", probe + `{ @ = ((struct out *)arg1).name; }`, "string[5]"},
		{"union", probe + `{ @ = ((union u *)arg1).s; }`, "int16"},
		{"enum", probe + `{ @ = (enum color)7; }`, "enum color"},
		{"typedef", probe + `{ @ = (number)arg0; }`, "uint16"},
		{"size", probe + `{ @ = (sizeof(struct out), sizeof(in)); }`, "(int8,int8)"},
		{"declared", probe + `{ let $i : struct in[2] = args.o.in; @ = $i[0].n; }`, "uint16"},
		{"oftenNamed", probe + `{ @ = ((struct out *)arg1).next.c; }`, "enum color"},
		{"return", "uretprobe:/bin/own:see " + `{ @ = ((struct in *)retval).n; }`, "uint16"},
		{"pattern", "uprobe:/bin/own:se* " + `{ @ = ((struct in *)arg0).n; }`, "uint16"},
		{"notTheKernels", probe + `{ @ = ((struct file *)arg0).mode; }`, "int8"},
		{"definedElsewhere", probe + `{ @ = args.f.mode; }`, "int8"},
		{"kernels", kernel + `{ @ = ((struct file *)arg0).f_flags; }`, "uint32"},
		{"both", kernel + `{ @k = ((struct file *)arg0).f_flags; } ` + probe + `{ @ = ((struct file *)arg0).mode; }`, "int8"},
		{"kernelsInProgram", probe + `{ @ = curtask.pid; $t = (struct task_struct *)arg0; }`, "int32"},
		{"ofScript", "struct file { long own; } " + probe + `{ @ = ((struct file *)arg0).own; }`, "int64"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := check(t, s, test.script)
			if err != nil {
				t.Fatal(syntax.ErrorText(err))
			}
			if _, v := p.Map("@"); v.String() != test.want {
				t.Errorf("@ is %v, want %s", v, test.want)
			}
		})
	}
	if _, err := check(t, s, kernel+`{ @ = ((struct out *)arg0).name; }`); err == nil {
		t.Error("a probe in the kernel has the types of a program")
	}
}
