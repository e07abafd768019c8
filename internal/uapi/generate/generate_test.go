package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/uapi"
)

// TestCompiled compares the table for amd64 with what the C compiler says of this
// machine's headers.
func TestCompiled(t *testing.T) {
	testenv.Need(t, testenv.Tool("gcc"), testenv.Arch("amd64"), testenv.File("/usr/include/linux/types.h"))
	dir := t.TempDir()
	if err := insteadOfLibc(dir); err != nil {
		t.Fatal(err)
	}
	var c strings.Builder
	for _, h := range kernelHeaders {
		fmt.Fprintf(&c, "#if __has_include(<%s>)\n#include <%[1]s>\n#endif\n", h)
	}
	c.WriteString("int printf(const char *, ...);\nint main(void) {\n")
	for name := range uapi.Names() {
		fmt.Fprintf(&c, "#ifdef %s\nprintf(\"%[1]s %%lld\\n\", (long long)(%[1]s));\n#endif\n", name)
	}
	c.WriteString("}\n")
	source, program := filepath.Join(dir, "x.c"), filepath.Join(dir, "x")
	if err := os.WriteFile(source, []byte(c.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-w", "-nostdinc", "-D_NSIG=64", "-isystem", dir}
	for _, d := range machines[0].dirs {
		args = append(args, "-isystem", d)
	}
	if out, err := testenv.Command(t, "gcc", append(args, "-o", program, source)...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	out, err := testenv.Command(t, program).Output()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for line := range strings.Lines(string(out)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		want, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := uapi.Lookup("amd64", name); !ok || got != want {
			t.Errorf("%s is %d, %v, the compiler says %d", name, got, ok, want)
		}
		compared++
	}
	t.Logf("%d names", compared)
	if compared < 1500 {
		t.Errorf("%d names were compared", compared)
	}
}

func TestEntry(t *testing.T) {
	for want, values := range map[string]map[string]int64{
		"1":                   {"amd64": 1, "arm64": 1, "riscv64": 1, "ppc64le": 1, "loong64": 1},
		"1,arm64:2,loong64:-": {"amd64": 1, "arm64": 2, "riscv64": 1, "ppc64le": 1},
		"-,arm64:-3":          {"arm64": -3},
	} {
		if got := entry(values); got != want {
			t.Errorf("%v is %s, want %s", values, got, want)
		}
	}
}

func TestWanted(t *testing.T) {
	for name, want := range map[string]bool{
		"ENOENT": true, "SIGKILL": true, "AF_INET": true, "PROC_SUPER_MAGIC": true, "CAP_LAST_CAP": false, "ECHOCTL": false,
		"AF_MAX": false, "RLIMIT_NOFILE": true, "si_pid": false, "LINUX_VERSION_CODE": false, "PATH_MAX": true,
	} {
		if got := wanted(name); got != want {
			t.Errorf("%s is wanted: %v", name, got)
		}
	}
}

// TestGoConstants compares all names that golang.org/x/sys/unix has too.
func TestGoConstants(t *testing.T) {
	testenv.Need(t, testenv.Go)
	for _, arch := range uapi.Arches() {
		values, err := goConstants(arch)
		if err != nil {
			t.Fatal(err)
		}
		compared := 0
		for name, want := range values {
			got, ok := uapi.Lookup(arch, name)
			if !ok {
				continue
			}
			// What programs pass to the kernel is 0, for they never need it.
			if compared++; got != want && name != "O_LARGEFILE" {
				t.Errorf("%s on %s is %d, by x/sys %d", name, arch, got, want)
			}
		}
		if compared < 1500 {
			t.Errorf("on %s %d names were compared", arch, compared)
		}
		t.Logf("%s: %d names", arch, compared)
	}
}
