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
	for _, table := range []struct {
		file, arch string
		abi        ABI
	}{
		{"amd64", "amd64", Native},
		{"386", "amd64", Compat},
		{"arm64", "arm64", Native},
		{"arm", "arm64", Compat},
	} {
		file := filepath.Join(strings.TrimSpace(string(dir)), "unix",
			"zsysnum_linux_"+table.file+".go")
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
			if name == "syscall_mask" { // arm's, of a register
				continue
			}
			got := Syscall(table.arch, table.abi, nr)
			back, ok := SyscallNumber(table.arch, table.abi, name)
			if got != name || !ok || back != nr {
				t.Errorf("%s: %d is %q, and %s is %d", table.file, nr, got, name, back)
			}
		}
	}
}

// The same number is another call in another ABI: the names were those of the native table.
func TestABIs(t *testing.T) {
	for _, test := range []struct {
		arch string
		abi  ABI
		nr   int
		want string
	}{
		{"amd64", Native, 20, "writev"},
		{"amd64", Compat, 20, "getpid"},
		{"amd64", X32, 20 | x32Bit, "[1073741844]"}, // its writev is another one
		{"amd64", X32, 516 | x32Bit, "writev"},
		{"amd64", Native, 257 | x32Bit, "openat"}, // bit 30 tells
		{"amd64", X32, 257, "[257]"},
		{"amd64", Native, 9999, "[9999]"},
		{"amd64", Compat, 9999, "[compat 9999]"},
		{"amd64", Native, -1, "[-1]"},
		{"arm64", Native, 11, "listxattr"},
		{"arm64", Compat, 11, "execve"},
		{"arm64", Compat, 0xf0005, "set_tls"},
		{"arm64", X32, 0, "[0]"},
		{"riscv64", Native, 0, "[0]"},
	} {
		if got := Syscall(test.arch, test.abi, test.nr); got != test.want {
			t.Errorf("%s %s %d is %s, want %s", test.arch, test.abi, test.nr, got, test.want)
		}
	}
	if n := len(Syscalls("amd64", X32)); n < 340 {
		t.Errorf("x32 has %d system calls", n)
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
