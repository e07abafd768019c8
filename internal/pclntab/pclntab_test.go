package pclntab

import (
	"debug/elf"
	"debug/gosym"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/testenv"
)

func open(tb testing.TB, path string) *Table {
	f, err := elffile.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	t, err := New(f)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func self(tb testing.TB) *Table {
	testenv.Need(tb, testenv.OS("linux"))
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return open(tb, exe)
}

// TestSelf compares the table of this test binary with package runtime: names, files, lines
// and inlined calls of every 7th byte of its code.
func TestSelf(t *testing.T) {
	tab := self(t)
	// A position-independent test binary is loaded at other addresses than those in its file.
	name := runtime.FuncForPC(reflect.ValueOf(TestSelf).Pointer()).Name()
	slide := uint64(0)
	for i := range tab.Len() {
		if fn, ok := tab.Func(i); ok && string(fn.Name()) == name {
			slide = uint64(reflect.ValueOf(TestSelf).Pointer()) - fn.Entry
		}
	}
	checked, inlined := 0, 0
	var calls []Call
	var runs []Run
	for i := range tab.Len() {
		fn, ok := tab.Func(i)
		if !ok {
			t.Fatalf("function %d is malformed", i)
		}
		runs, ok := fn.Runs(runs[:0], 1<<16)
		if !ok || runs[len(runs)-1].Line >= 0 {
			t.Fatalf("%s has malformed runs", fn.Name())
		}
		for pc := fn.Entry; pc+1 < fn.End; pc += 7 {
			fn := fn // whose steps are bounded
			_, known := fn.Line(pc)
			calls = fn.Calls(calls[:0], pc)
			compareRun(t, &fn, runAt(runs, pc-fn.Entry), calls)
			if !known {
				continue // padding
			}
			// CallersFrames subtracts one from return addresses, and expands
			// inlined calls only of addresses that are not the last.
			frames := runtime.CallersFrames([]uintptr{uintptr(pc+slide) + 1, 1})
			for k := 0; k < len(calls); k++ {
				fr, more := frames.Next()
				c := calls[k]
				got := string(tab.NameAt(c.Name))
				if c.Name == 0 {
					got = "" // the runtime takes offset 0 for no name
				}
				line, _ := fn.Line(c.PC)
				off, _ := fn.FileOffset(c.PC)
				if got != fr.Function && !shortened(got, fr.Function) || line != fr.Line || string(tab.FileAt(off)) != fr.File {
					t.Fatalf("%#x call %d: got %s %s:%d, the runtime says %s %s:%d", pc, k, got,
						tab.FileAt(off), line, fr.Function, fr.File, fr.Line)
				}
				if !more && k != len(calls)-1 {
					// The runtime leaves out wrapper functions.
					break
				}
			}
			checked++
			inlined += len(calls) - 1
		}
	}
	t.Logf("%d addresses, %d inlined calls of %d functions", checked, inlined, tab.Len())
	if checked < 10000 || inlined < 10000 {
		t.Errorf("only %d addresses and %d inlined calls were compared", checked, inlined)
	}
}

// runAt returns the run that an offset in a function lies in.
func runAt(runs []Run, off uint64) Run {
	for i := len(runs) - 1; ; i-- {
		if uint64(runs[i].Off) <= off {
			return runs[i]
		}
	}
}

// compareRun compares a run with what is at its addresses by the other methods,
// calls[0].PC being one of them.
func compareRun(t *testing.T, fn *Func, r Run, calls []Call) {
	t.Helper()
	pc := calls[0].PC
	line, known := fn.Line(pc)
	if known != (r.Line >= 0) || known && max(line, 0) != int(r.Line) {
		t.Fatalf("%#x is on line %d, %v; its run on %d", pc, line, known, r.Line)
	}
	if !known {
		return
	}
	off, ok := fn.FileOffset(pc)
	if again, found := fn.File(r.File); ok != found || again != off {
		t.Fatalf("%#x is in %s; its run in %s", pc, fn.t.FileAt(off), fn.t.FileAt(again))
	}
	name, parent, inlined := fn.Inlined(r.Call)
	if inlined != (len(calls) > 1) || inlined && (name != calls[0].Name || fn.Entry+uint64(parent) != calls[1].PC) {
		t.Fatalf("%#x is at calls %v; its run at %s, %v, from %#x", pc, calls, fn.t.NameAt(name), inlined, parent)
	}
}

// shortened reports whether the runtime printed name as it prints instantiated
// functions: the type arguments as "...".
func shortened(name, printed string) bool {
	i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	return i > 0 && j > i && name[:i]+"[...]"+name[j+1:] == printed
}

func BenchmarkFind(b *testing.B) {
	tab := self(b)
	pcs := make([]uint64, 4096)
	for i := range pcs {
		fn, _ := tab.Func(i * 7919 % tab.Len())
		pcs[i] = fn.Entry + (fn.End-fn.Entry)/2
	}
	i := 0
	var calls []Call
	b.ReportAllocs()
	for b.Loop() {
		pc := pcs[i&4095]
		i++
		fn, _ := tab.Find(pc)
		calls = fn.Calls(calls[:0], pc)
		for _, c := range calls {
			fn.Line(c.PC)
			fn.FileOffset(c.PC)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	exe, _ := os.Executable()
	for b.Loop() {
		f, err := elffile.Open(exe)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := New(f); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

func BenchmarkGosym(b *testing.B) {
	exe, _ := os.Executable()
	f, err := elf.Open(exe)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	data, _ := f.Section(".gopclntab").Data()
	gt, err := gosym.NewTable(nil, gosym.NewLineTable(data, f.Section(".text").Addr))
	if err != nil {
		b.Fatal(err)
	}
	i := 0
	for b.Loop() {
		fn := &gt.Funcs[i*7919%len(gt.Funcs)]
		gt.PCToLine((fn.Entry + fn.End) / 2)
		i++
	}
}
