package symbol

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// TestGoFunctions names addresses in every function of this program with and without
// functions being kept, of which there are too many: the first time in place, then
// decoded, then from memory. It holds the limit of what is kept.
func TestGoFunctions(t *testing.T) {
	testenv.Need(t, testenv.OS("linux"))
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	open := func(opts ELFOptions) *ELF {
		e, err := OpenELF(exe, &opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e
	}
	kept, none := open(ELFOptions{NameCache: 2 << 20}), open(ELFOptions{NameCache: 1})
	alone, noneAlone := open(ELFOptions{NoInline: true}), open(ELFOptions{NoInline: true, NameCache: 1})
	tab := kept.goTable()
	if tab == nil {
		t.Fatal("no function table")
	}
	rng := rand.New(rand.NewPCG(5, 6))
	var pcs []uint64
	for i := range 2 * tab.Len() {
		fn, ok := tab.Func(i / 2)
		if !ok {
			t.Fatal("a malformed function")
		}
		pcs = append(pcs, fn.Entry+rng.Uint64N(max(fn.End-fn.Entry, 1)))
	}
	want := none.Resolve(nil, pcs)
	wantAlone := noneAlone.Resolve(nil, pcs)
	for range 3 {
		if got := kept.Resolve(nil, pcs); !slices.Equal(got, want) {
			t.Error("the answers differ")
		}
		if got := alone.Resolve(nil, pcs); !slices.Equal(got, wantAlone) || len(got) != len(pcs) {
			t.Error("the answers without inlined calls differ")
		}
	}
	inlined := 0
	for i := range want {
		if want[i].Inlined {
			inlined++
		}
	}
	if inlined < 100 {
		t.Errorf("only %d inlined calls", inlined)
	}
	if n := tab.bytes(); n <= int64(8*tab.Len()) || n > tab.limit || !tab.full.Load() {
		t.Errorf("%d bytes are kept, of %d", n, tab.limit)
	}
	decoded := 0
	for i := range tab.known {
		if f := tab.known[i].Load(); f != nil && f != &seenGoFunc && f != &plainGoFunc {
			decoded++
		}
	}
	if decoded < 1000 || decoded == tab.Len() {
		t.Errorf("%d of %d functions are kept", decoded, tab.Len())
	}
	if n := none.goTable().bytes(); n != 0 {
		t.Errorf("%d bytes are kept, where nothing should be", n)
	}
	var dst []Frame
	dst = kept.Resolve(dst, pcs[:200])
	if n := testing.AllocsPerRun(20, func() { dst = kept.Resolve(dst[:0], pcs[:200]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
