package sysnames

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The tables of names are those of golang.org/x/sys.
func TestSyscallNames(t *testing.T) {
	testenv.Need(t, testenv.Go)
	dir, err := testenv.Command(t, "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		file := filepath.Join(strings.TrimSpace(string(dir)), "unix", "zsysnum_linux_"+arch+".go")
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all := regexp.MustCompile(`(?m)^\tSYS_(\w+)\s*=\s*(\d+)`).FindAllStringSubmatch(string(src), -1)
		if len(all) < 300 {
			t.Fatalf("%s has %d system calls", file, len(all))
		}
		for _, m := range all {
			nr, _ := strconv.Atoi(m[2])
			name := strings.ToLower(m[1])
			if back, ok := SyscallNumber(arch, name); Syscall(arch, nr) != name || !ok || back != nr {
				t.Errorf("%s: %d is %q, and %s is %d", arch, nr, Syscall(arch, nr), name, back)
			}
		}
	}
	if s := Syscall("amd64", 9999); s != "[9999]" {
		t.Errorf("%q", s)
	}
}

func TestErrnoNames(t *testing.T) {
	for n := 1; n <= 133; n++ {
		alias := n == 95 || n == 117 // EOPNOTSUPP is ENOTSUP, too, and EUCLEAN EFSCORRUPTED
		if want := errnoName(n); want != "" && Errno(n) != want && !alias {
			t.Errorf("%d is %s, want %s", n, Errno(n), want)
		}
	}
	if n, ok := ErrnoNumber("EPERM"); n != 1 || !ok {
		t.Errorf("EPERM is %d", n)
	}
	if n, ok := ErrnoNumber("13"); n != 13 || !ok {
		t.Errorf("13 is %d", n)
	}
	if _, ok := ErrnoNumber("EVERYTHING"); ok {
		t.Error("EVERYTHING is an error")
	}
}
