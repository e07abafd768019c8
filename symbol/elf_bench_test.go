package symbol

import (
	"debug/elf"
	"math/rand/v2"
	"os"
	"sort"
	"testing"
)

// benchFile is the file that SYMBOL_BENCH_ELF names, or a large one with both
// tables, where there is one.
func benchFile(tb testing.TB) string {
	for _, p := range []string{os.Getenv("SYMBOL_BENCH_ELF"), "/usr/bin/node", "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1", "/usr/local/go/bin/go"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return exe
}

func BenchmarkELFLoad(b *testing.B) {
	path := benchFile(b)
	for b.Loop() {
		e, err := OpenELF(path, nil)
		if err != nil {
			b.Fatal(err)
		}
		t, err := e.table(false)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(t.kind)), "symbols")
		b.ReportMetric(float64(t.bytes())/float64(len(t.kind)), "B/symbol")
		e.Close()
	}
}

// BenchmarkELFLoadDebugELF is the plain Go way: debug/elf and sort.
func BenchmarkELFLoadDebugELF(b *testing.B) {
	path := benchFile(b)
	for b.Loop() {
		f, err := elf.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		syms, _ := f.Symbols()
		dyn, _ := f.DynamicSymbols()
		syms = append(syms, dyn...)
		sort.Slice(syms, func(i, j int) bool { return syms[i].Value < syms[j].Value })
		f.Close()
	}
}

// randomAddrs draws addresses uniformly over functions, then over the function.
func randomAddrs(e *ELF, n int) []uint64 {
	t, err := e.table(false)
	if err != nil || len(t.kind) == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([]uint64, n)
	for i := range out {
		k := rng.IntN(len(t.kind))
		out[i] = t.at(k) + rng.Uint64N(uint64(max(t.syms[k].size, 1)))
	}
	return out
}

func BenchmarkELFResolve(b *testing.B) {
	e, err := OpenELF(benchFile(b), &ELFOptions{NameCache: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	pcs := randomAddrs(e, 65536)
	var dst []Frame
	for _, pc := range pcs {
		dst = e.Resolve(dst[:0], []uint64{pc})
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		dst = e.Resolve(dst[:0], pcs[i&65535:i&65535+1])
		i++
	}
}

// BenchmarkSourceCold opens a file with DWARF and names 10,000 addresses in its
// functions, with lines and inlined calls.
func BenchmarkSourceCold(b *testing.B) {
	path := os.Getenv("SYMBOL_BENCH_DWARF") // a debug file, of libc for example
	if path == "" {
		b.Skip("SYMBOL_BENCH_DWARF names no file")
	}
	e, err := OpenELF(path, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	pcs := randomAddrs(e, 10000)
	b.ReportAllocs()
	for b.Loop() {
		e, err := OpenELF(path, &ELFOptions{Source: true, DebugDirs: []string{}})
		if err != nil {
			b.Fatal(err)
		}
		var dst []Frame
		for i := range pcs {
			dst = e.Resolve(dst[:0], pcs[i:i+1])
		}
		b.ReportMetric(float64(e.bytes()), "retained-B")
		e.Close()
	}
}

// BenchmarkGoResolve names addresses of a Go program: function, file and line,
// without and with inlined calls; of addresses that are remembered, and of those
// that are not.
func BenchmarkGoResolve(b *testing.B) {
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		noInline bool
		cache    int64
	}{
		{"function/again", true, 128 << 20},
		{"inlines/again", false, 128 << 20},
		{"function/first", true, 8 << 20},
		{"inlines/first", false, 8 << 20},
	} {
		b.Run(c.name, func(b *testing.B) {
			e, err := OpenELF(exe, &ELFOptions{NoInline: c.noInline, NameCache: c.cache})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			if e.goTable() == nil {
				b.Skip("not a Go program")
			}
			t := e.goTable().Table
			rng := rand.New(rand.NewPCG(1, 2))
			pcs := make([]uint64, 65536)
			for i := range pcs {
				fn, _ := t.Func(rng.IntN(t.Len()))
				pcs[i] = fn.Entry + rng.Uint64N(max(fn.End-fn.Entry, 1))
			}
			var dst []Frame
			for i := range pcs {
				dst = e.Resolve(dst[:0], pcs[i:i+1])
			}
			b.ReportAllocs()
			i, frames := 0, 0
			for b.Loop() {
				dst = e.Resolve(dst[:0], pcs[i&65535:i&65535+1])
				frames += len(dst)
				i++
			}
			b.ReportMetric(float64(frames)/float64(i), "frames/op")
		})
	}
}
