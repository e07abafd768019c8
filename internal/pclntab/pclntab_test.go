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

// TestSelf compares with what the runtime says about this very program: names,
// files, lines and inlined calls of every 7th byte of its code.
func TestSelf(t *testing.T) {
	tab := self(t)
	// A position independent test binary lies elsewhere than its file says.
	name := runtime.FuncForPC(reflect.ValueOf(TestSelf).Pointer()).Name()
	slide := uint64(0)
	for i := range tab.Len() {
		if fn, ok := tab.Func(i); ok && string(fn.Name()) == name {
			slide = uint64(reflect.ValueOf(TestSelf).Pointer()) - fn.Entry
		}
	}
	checked, inlined, oneFile := 0, 0, 0
	var calls []Call
	for i := range tab.Len() {
		fn, ok := tab.Func(i)
		if !ok {
			t.Fatalf("function %d is malformed", i)
		}
		one, ok := fn.OneFile()
		if ok {
			oneFile++
		}
		for pc := fn.Entry; pc+1 < fn.End; pc += 7 {
			line, known := fn.Line(pc)
			if again, ok := fn.LineIn(fn.Lines(), pc); again != line || ok != known {
				t.Fatalf("%#x is on lines %d and %d", pc, line, again)
			}
			if !known {
				continue // padding
			}
			if off, found := fn.FileOffset(pc); ok && (!found || off != one) {
				t.Fatalf("%#x is in %s, but all of the function in %s", pc, tab.FileAt(off), tab.FileAt(one))
			}
			calls = fn.Calls(calls[:0], pc)
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
	t.Logf("%d addresses, %d inlined calls, %d of %d functions from one file", checked, inlined, oneFile, tab.Len())
	if oneFile < tab.Len()/10 || oneFile == tab.Len() {
		t.Errorf("%d of %d functions are from one file", oneFile, tab.Len())
	}
	if checked < 10000 || inlined < 10000 {
		t.Errorf("only %d addresses and %d inlined calls were compared", checked, inlined)
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
