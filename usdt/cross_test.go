package usdt_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/usdt"
)

// TestOtherMachines compiles probes for other machines to objects, and parses
// all that the compiler writes. RISC-V is not among them, because its objects
// leave the sizes in the notes to the linker; the corpus has linked files.
func TestOtherMachines(t *testing.T) {
	testenv.Need(t, testenv.Tool("clang"))
	header, _ := filepath.Glob("/usr/include/*/sys/sdt.h")
	if len(header) == 0 {
		header = []string{"/usr/include/sys/sdt.h"}
	}
	include := filepath.Dir(filepath.Dir(header[0]))
	optimise, pics := []string{"-O2"}, []string{"-fPIC", "-fno-pic"}
	if *full {
		optimise, pics = []string{"-O0", "-O1", "-O2", "-O3", "-Os"}, []string{"-fPIC", "-fPIE", "-fno-pic"}
	}
	total := 0
	for _, target := range []string{"x86_64", "i386", "aarch64", "armv7", "powerpc64le", "powerpc64", "s390x"} {
		shapes := map[string]bool{}
		for _, o := range optimise {
			for _, pic := range pics {
				for _, constraint := range []string{"", "g"} {
					object := filepath.Join(t.TempDir(), "operands.o")
					args := []string{"--target=" + target + "-linux-gnu", o, pic, "-c", "-o", object, "testdata/operands.c", "-idirafter", include}
					if constraint != "" {
						args = append(args, "-DSTAP_SDT_ARG_CONSTRAINT="+constraint)
					}
					if out, err := testenv.Command(t, "clang", args...).CombinedOutput(); err != nil {
						if total == 0 && target == "x86_64" {
							testenv.Need(t, testenv.Got("clang with sys/sdt.h", fmt.Errorf("%w: %s", err, out), testenv.NoSDT...))
						}
						t.Logf("%s %s %s %q: %s", target, o, pic, constraint, bytes.SplitN(out, []byte("\n"), 2)[0])
						continue
					}
					total += parseObject(t, object, shapes)
				}
			}
		}
		t.Logf("%s: %d operand shapes", target, len(shapes))
	}
	t.Logf("%d arguments", total)
}

// parseObject parses the arguments of an unlinked file, whose probes have no
// addresses yet.
func parseObject(t *testing.T, path string, shapes map[string]bool) int {
	f, err := usdt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sites, err := f.Sites()
	if err != nil || len(sites) == 0 {
		t.Fatalf("%d sites, %v", len(sites), err)
	}
	n := 0
	for _, s := range sites {
		var syntax *usdt.SyntaxError
		if errors.As(s.Err, &syntax) {
			t.Errorf("%v: %v", f.Machine, s.Err)
		}
		texts := make([]string, len(s.Args))
		for i, a := range s.Args {
			texts[i] = a.String()
			shapes[strings.Trim(a.Operand.String(), "0123456789")] = true
			n++
		}
		if got := strings.Join(texts, " "); got != s.Spec {
			t.Errorf("%v: got %q, want %q", f.Machine, got, s.Spec)
		}
	}
	return n
}
