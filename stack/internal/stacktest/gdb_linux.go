package stacktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// GDB returns the program counters of a stopped process's stack from gdb, innermost first,
// without inlined and tail calls. args are further arguments of gdb, which select the process.
func GDB(t *testing.T, args ...string) []uint64 {
	t.Helper()
	script := `
import gdb
f = gdb.newest_frame()
while f is not None:
    if f.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME): # those have no frame of their own
        print("PC 0x%x %s" % (f.pc(), f.name()))
    f = f.older()
`
	file := filepath.Join(t.TempDir(), "bt.py")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{
		"-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex",
		"set backtrace past-main on", "-ex", "set backtrace past-entry on",
	}, args...)
	out, err := testenv.Command(t, "gdb", append(args, "-x", file)...).CombinedOutput()
	if err != nil {
		t.Fatalf("gdb: %v: %s", err, out)
	}
	var chain []uint64
	for line := range strings.Lines(string(out)) {
		var pc uint64
		if n, _ := fmt.Sscanf(line, "PC 0x%x", &pc); n == 1 {
			chain = append(chain, pc)
		}
	}
	if len(chain) == 0 {
		t.Fatalf("gdb said nothing useful: %s", out)
	}
	return chain
}

// Gcore writes a process's core file to prefix.PID.
func Gcore(t *testing.T, prefix string, pid int) {
	t.Helper()
	if out, err := testenv.Command(t, "gcore", "-o", prefix,
		strconv.Itoa(pid)).CombinedOutput(); err != nil {
		t.Fatalf("gcore: %v: %s", err, out)
	}
}
