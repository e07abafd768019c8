package env

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/testenv"
)

// TestBTFFuncs: the same names as cilium's reader finds, in this kernel's types.
func TestBTFFuncs(t *testing.T) {
	testenv.Need(t, testenv.BTF)
	var got []string
	if err := EachTypeName[*btf.Func](New(nil), func(name []byte) { got = append(got, string(name)) }); err != nil {
		t.Fatal(err)
	}
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for typ, err := range spec.All() {
		if err != nil {
			t.Fatal(err)
		}
		if fn, ok := typ.(*btf.Func); ok {
			want[fn.Name] = true
		}
	}
	slices.Sort(got)
	if all := slices.Sorted(maps.Keys(want)); !slices.Equal(slices.Compact(got), all) {
		t.Errorf("%d names, cilium finds %d", len(got), len(all))
	}
}

// TestTrampolineFuncs: the blob's own types say the same as cilium's reader.
func TestTrampolineFuncs(t *testing.T) {
	testenv.Need(t, testenv.BTF)
	env := New(nil)
	got, err := env.loadTrampolines()
	if err != nil {
		t.Fatal(err)
	}
	want, err := env.specTrampolines()
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d functions, cilium's reader finds %d", len(got), len(want))
	}
	if got["vfs_read"] == 0 || got["_printk"] != 0 {
		t.Errorf("vfs_read is type %d, and _printk, which has a variable number of arguments, %d", got["vfs_read"], got["_printk"])
	}
}

// BenchmarkGuessTraceable is the list of traceable functions where the kernel's
// own can't be read; most of it is the kernel writing /proc/kallsyms.
func BenchmarkGuessTraceable(b *testing.B) {
	testenv.Need(b, testenv.BTF)
	for b.Loop() {
		if _, err := New(nil).guessTraceable(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadKallsyms(b *testing.B) {
	for b.Loop() {
		if _, err := os.ReadFile("/proc/kallsyms"); err != nil {
			b.Fatal(err)
		}
	}
}
