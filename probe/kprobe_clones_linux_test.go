package probe

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/env"
)

// TestNamesOfThisKernel: of all functions in this kernel's BTF, those are refused that several
// functions are called, or none; and no others.
func TestNamesOfThisKernel(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Fentry)
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		w := strings.Fields(lines.Text())
		if len(w) == 3 && strings.Contains("tTwW", w[1]) {
			symbols[w[2]]++
		}
	}
	var names []string
	if err := env.EachTypeName[*btf.Func](thisMachine(), func(b []byte) {
		names = append(names, string(b))
	}); err != nil {
		t.Fatal(err)
	}
	unique, several, none := 0, 0, 0
	for _, n := range names {
		// Some kernels' BTF describes one function several times, which is another error.
		count := symbols[n]
		if count == 1 && unique > 2000 || count == 0 && none > 100 || strings.HasPrefix(n, "___") {
			continue // the index of cilium/ebpf (0.22) lacks names that begin so
		}
		_, err := Resolve(thisMachine(), []Target{Fentry{Symbol: n}}, nil)
		switch {
		case count == 1:
			unique++
			if err != nil && !strings.Contains(err.Error(), "different prototypes") {
				t.Errorf("%s: %v", n, err)
			}
		case count > 1:
			several++
			if err == nil || !strings.Contains(err.Error(), " functions ") {
				t.Errorf("%s, of which there are %d: %v", n, count, err)
			}
		default:
			none++
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s, which does not exist: %v", n, err)
			}
		}
	}
	if unique < 1000 {
		t.Errorf("%d names of one function", unique)
	}
	t.Logf("%d names of one function, %d of several, %d of none", unique, several, none)
}
