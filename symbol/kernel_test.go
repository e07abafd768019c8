package symbol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/testenv"
)

const kallsymsText = `0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 t local_alias
ffffffff81000010 T vfs_read
ffffffff81000010 T __vfs_read_alias
ffffffff81000100 t helper
ffffffff81000200 T _etext
ffffffff82000000 D a_variable
ffffffffc0001000 t helper	[ext4]
ffffffffc0001080 T ext4_sync	[ext4]
ffffffffc0002000 t start	[xfs]
ffffffffc0000100 t bpf_prog_6deef7357e7b4530_hello	[bpf]
`

func TestKernel(t *testing.T) {
	k, err := ParseKallsyms(strings.NewReader(kallsymsText))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pc           uint64
		name, module string
		offset, size uint64
		conf         Confidence
		kind         Kind
	}{
		{0xffffffff81000000, "_stext", "[kernel]", 0, 0x10, exact, KindKernel},
		{0xffffffff81000015, "vfs_read", "[kernel]", 5, 0xf0, exact, KindKernel},
		{0xffffffff810001ff, "helper", "[kernel]", 0xff, 0x100, exact, KindKernel},
		{0xffffffff81000210, "", "[kernel]", 0, 0, no_, KindKernel}, // past _etext
		{0xffffffffc0001010, "helper", "[ext4]", 0x10, 0x80, exact, KindKernel},
		{0xffffffffc0001090, "ext4_sync", "[ext4]", 0x10, 0, nosize, KindKernel},
		{0xffffffffc0002010, "start", "[xfs]", 0x10, 0, nosize, KindKernel},
		{0xffffffffc0002010 + maxLastSize, "", "", 0, 0, no_, KindKernel},
		{0xffffffffc0000110, "bpf_prog_6deef7357e7b4530_hello", "[bpf]", 0x10, 0, nosize, KindBPF},
		{0xffffffff82000001, "a_variable", "[kernel]", 1, 0, nosize, KindData},
	} {
		f := k.Resolve(nil, []uint64{c.pc})[0]
		if f.Name != c.name || f.Module != c.module || f.Offset != c.offset || f.Size != c.size ||
			f.Confidence != c.conf || f.Kind != c.kind || f.ModuleOffset != c.pc {
			t.Errorf("%#x: got %+v", c.pc, f)
		}
	}
	list, err := k.Lookup("helper")
	if err != nil || len(list) != 2 || list[0].Module != "[kernel]" || list[1].Addr != 0xffffffffc0001000 ||
		list[1].Size != 0x80 {
		t.Errorf("Lookup: %+v %v", list, err)
	}
	if _, err := k.Lookup("nothing"); !errors.Is(err, ErrNoSymbol) {
		t.Errorf("Lookup: %v", err)
	}
	p, _ := glob("*read*")
	if list, _ := k.Match(p); len(list) != 2 {
		t.Errorf("Match: %+v", list)
	}
	var dst []Frame
	pcs := []uint64{0xffffffff81000015, 0xffffffffc0001010}
	if n := testing.AllocsPerRun(100, func() { dst = k.Resolve(dst[:0], pcs) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestKernelWith follows BPF programs that come and go.
func TestKernelWith(t *testing.T) {
	k, err := ParseKallsyms(strings.NewReader(kallsymsText))
	if err != nil {
		t.Fatal(err)
	}
	const a, old = 0xffffffffc0100000, 0xffffffffc0000100
	one := k.With(KernelSymbol{Addr: a, Len: 0x40, Name: "bpf_prog_1", BPF: true},
		KernelSymbol{Addr: a + 0x40, Len: 0x10, Name: "bpf_trampoline_2", BPF: true},
		KernelSymbol{Addr: old, Len: 0x40, BPF: true, Unload: true})
	two := one.With(KernelSymbol{Addr: a, Len: 0x20, Name: "ftrace_trampoline"}, KernelSymbol{Addr: a + 0x40, Unload: true})
	for _, c := range []struct {
		k    *Kernel
		pc   uint64
		want string
	}{
		{one, a + 0x3f, "bpf_prog_1"},
		{one, a + 0x45, "bpf_trampoline_2"},
		{one, a + 0x50, "(no symbol covers the address)"},
		{one, old + 1, "(no mapping)"},
		{one, 0xffffffff81000015, "vfs_read"},
		{two, a + 0x10, "ftrace_trampoline"},
		{two, a + 0x40, "(no mapping)"},
		{k, old + 1, "bpf_prog_6deef7357e7b4530_hello"},
	} {
		if got := frameNames(c.k.Resolve(nil, []uint64{c.pc})); got != c.want {
			t.Errorf("%#x: got %s, want %s", c.pc, got, c.want)
		}
	}
	if f := one.Resolve(nil, []uint64{a})[0]; f.Kind != KindBPF || f.Module != "[bpf]" || f.Size != 0x40 {
		t.Errorf("got %+v", f)
	}
}

func TestKernelHidden(t *testing.T) {
	tr := fstest.MapFS{"proc/kallsyms": {Data: []byte("0000000000000000 T vfs_read\n0000000000000000 T vfs_write\n")}}
	k, err := OpenKernel(&KernelOptions{Root: tr})
	if err != nil {
		t.Fatal(err)
	}
	if f := k.Resolve(nil, []uint64{0xffffffff81000000})[0]; f.Reason != ReasonHidden {
		t.Errorf("got %+v", f)
	}
	if err := k.Err(); !errors.Is(err, ErrHidden) {
		t.Errorf("got %v", err)
	}
	if _, err := k.Lookup("vfs_read"); !errors.Is(err, ErrHidden) {
		t.Errorf("got %v", err)
	}
	if _, err := OpenKernel(&KernelOptions{Root: fstest.MapFS{}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	tr["proc/kallsyms"].Data = []byte("what is this\n")
	if k, err = OpenKernel(&KernelOptions{Root: tr}); err != nil {
		t.Fatal(err)
	}
	if f := k.Resolve(nil, []uint64{1})[0]; f.Reason != ReasonNoKallsyms {
		t.Errorf("got %+v", f)
	}
	if err := k.Err(); err == nil || !strings.Contains(err.Error(), "kallsyms:1:") {
		t.Errorf("got %v", err)
	}
}

// TestKernelCache reads a table from its cache, and not if anything changed.
func TestKernelCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	tr := fstest.MapFS{
		"proc/kallsyms":                  {Data: []byte(kallsymsText)},
		"proc/modules":                   {Data: []byte("ext4 1000 1 - Live 0xffffffffc0001000\n")},
		"proc/sys/kernel/random/boot_id": {Data: []byte("b5c3a6ac-0000-4000-8000-000000000001\n")},
	}
	opts := &KernelOptions{Root: tr, Data: true, Cache: path}
	resolve := func() (string, string) {
		k, err := OpenKernel(opts)
		if err != nil {
			t.Fatal(err)
		}
		pcs := []uint64{0xffffffff81000015, 0xffffffffc0001010, 0xffffffff81000210, 0xffffffff82000001, 0xffffffffc0000110}
		frames := k.Resolve(nil, pcs)
		if err := k.CacheErr(); err != nil {
			t.Error(err)
		}
		return frameNames(frames[:4]), frameNames(frames[4:])
	}
	want, bpf := resolve()
	if want != "vfs_read helper (no symbol covers the address) a_variable" || bpf[:8] != "bpf_prog" {
		t.Fatalf("got %s", want)
	}
	tr["proc/kallsyms"].Data = []byte("ffffffff81000000 T changed\nffffffff82000000 T end\n")
	if got, bpf := resolve(); got != want || bpf[:8] == "bpf_prog" {
		t.Errorf("from the cache: got %s, %s", got, bpf)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		t.Errorf("%v %v", st.Mode(), err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(whole); i += 7 {
		b := slices.Clone(whole)
		b[i] ^= 0x10
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _ := resolve(); got[:7] != "changed" {
			t.Fatalf("with byte %d flipped: got %s", i, got)
		}
	}
	for name, data := range map[string]string{
		"proc/modules": "ext4 1000 1 - Live 0xffffffffc0005000\n", "proc/sys/kernel/random/boot_id": "another\n",
	} {
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		old := tr[name].Data
		tr[name].Data = []byte(data)
		if got, _ := resolve(); got[:7] != "changed" {
			t.Errorf("%s changed: got %s", name, got)
		}
		tr[name].Data = old
	}
	opts.Cache = filepath.Join(path, "impossible")
	k, err := OpenKernel(opts)
	if err != nil || k.Err() != nil || k.CacheErr() == nil {
		t.Errorf("got %v, %v", err, k.CacheErr())
	}
}

// countReads counts what is read from a tree.
type countReads struct {
	fs.FS
	opened int
}

func (c *countReads) Open(name string) (fs.File, error) {
	c.opened++
	return c.FS.Open(name)
}

// TestKernelLazy holds the promise that nothing is read before it is needed, and
// only once.
func TestKernelLazy(t *testing.T) {
	tr := &countReads{FS: fstest.MapFS{"proc/kallsyms": {Data: []byte(kallsymsText)}}}
	k, err := OpenKernel(&KernelOptions{Root: tr})
	if err != nil {
		t.Fatal(err)
	}
	if bytesOf(k) != 0 {
		t.Errorf("%d bytes before the first question", bytesOf(k))
	}
	before := tr.opened
	for range 3 {
		k.Resolve(nil, []uint64{0xffffffff81000000})
	}
	if tr.opened != before+1 {
		t.Errorf("opened %d times", tr.opened-before)
	}

	// Nor to close what was never asked for its DWARF.
	if k, err = OpenKernel(&KernelOptions{Root: tr, Source: true}); err != nil {
		t.Fatal(err)
	}
	before = tr.opened
	if err := k.Close(); err != nil || tr.opened != before {
		t.Errorf("closing opened %d files: %v", tr.opened-before, err)
	}
}

// TestThisKernel names the address of every 997th line and finds it by its name.
func TestThisKernel(t *testing.T) {
	testenv.Need(t, testenv.File("/proc/kallsyms"))
	text, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	k, err := ParseKallsyms(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if errors.Is(k.Err(), ErrHidden) {
		testenv.Need(t, testenv.Root)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if symbolsOf(k) != len(lines) {
		t.Errorf("%d of %d symbols", symbolsOf(k), len(lines))
	}
	for i := 0; i < len(lines); i += 997 {
		var addr uint64
		var typ, name string
		fmt.Sscanf(lines[i], "%x %s %s", &addr, &typ, &name)
		list, err := k.Lookup(name)
		if err != nil || !slices.ContainsFunc(list, func(s Symbol) bool { return s.Addr == addr }) {
			t.Fatalf("%s: %+v %v", lines[i], list, err)
		}
		f := k.Resolve(nil, []uint64{addr})[0]
		if f.Offset != 0 {
			t.Errorf("%s: got %+v", lines[i], f)
		}
		if same, _ := k.Lookup(f.Name); !slices.ContainsFunc(same, func(s Symbol) bool { return s.Addr == addr }) {
			t.Errorf("%s is named %s, which is not there", lines[i], f.Name)
		}
	}
	if n := bytesOf(k); symbolsOf(k) < 130000 && n > 4<<20 {
		t.Errorf("%d symbols hold %d bytes", symbolsOf(k), n)
	}
	pcs := make([]uint64, 4096)
	for i := range pcs {
		fmt.Sscanf(lines[rand.IntN(len(lines))], "%x", &pcs[i])
		pcs[i] += rand.Uint64N(1 << rand.IntN(20))
	}
	sameWithoutTable(t, k, text, pcs)
}

// errorReader fails after some bytes.
type errorReader struct{ r io.Reader }

func (e errorReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func TestKallsymsErrors(t *testing.T) {
	for _, c := range []struct{ text, msg string }{
		{"zz T x\n", "kallsyms:1:"},
		{"1 T\n", "kallsyms:1:"},
		{"1 T a\n12345678901234567 T x\n", "kallsyms:2:"},
		{"1 T \n", "kallsyms:1:"},
		{"1 T " + strings.Repeat("x", 1<<20), "too long"},
	} {
		if _, err := ParseKallsyms(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.msg) {
			t.Errorf("%.20q: got %v", c.text, err)
		}
	}
	if _, err := ParseKallsyms(errorReader{strings.NewReader(kallsymsText)}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if k, err := ParseKallsyms(strings.NewReader("ffffffff81000000 T last_line_without_end")); err != nil || symbolsOf(k) != 1 {
		t.Errorf("got %v", err)
	}
	long := strings.Repeat("n", 600)
	k, err := ParseKallsyms(strings.NewReader("10 T a\n20 T " + long + "\n30 T b\n"))
	if err != nil || k.Resolve(nil, []uint64{0x21})[0].Name != long {
		t.Errorf("a long name: %v", err)
	}
}

// FuzzKallsyms checks that every symbol that was read is found again by its
// address and by its name.
func FuzzKallsyms(f *testing.F) {
	f.Add([]byte(kallsymsText))
	f.Add([]byte("5 t b\n3 T a\n5 T c\t[m]\nffffffffffffffff T z\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ParseKallsyms(bytes.NewReader(b))
		if err != nil || k.Err() != nil {
			return
		}
		list, err := k.Match(nil)
		if err != nil || len(list) != symbolsOf(k) {
			t.Fatalf("%d of %d symbols: %v", len(list), symbolsOf(k), err)
		}
		if !slices.IsSortedFunc(list, func(a, b Symbol) int {
			if a.Addr < b.Addr {
				return -1
			} else if a.Addr > b.Addr {
				return 1
			}
			return 0
		}) {
			t.Fatal("not in order")
		}
		var pcs []uint64
		for _, s := range list {
			fr := k.Resolve(nil, []uint64{s.Addr})[0]
			if fr.Name == "" || fr.Offset != 0 {
				t.Fatalf("%+v is named %+v", s, fr)
			}
			pcs = append(pcs, s.Addr+1, s.Addr)
		}
		for step := 1; step <= len(pcs); step += 1 + step/2 {
			var some []uint64
			for i := 0; i < len(pcs); i += step {
				some = append(some, pcs[i], pcs[i]-2)
			}
			sameWithoutTable(t, k, b, some)
		}
		if bytesOf(k) > 1<<16+20*int64(len(b)) {
			t.Fatalf("%d bytes of text hold %d", len(b), bytesOf(k))
		}
	})
}

// sameWithoutTable names addresses in one call, without a table, as k does.
func sameWithoutTable(t *testing.T, k *Kernel, text []byte, pcs []uint64) {
	t.Helper()
	near, err := OpenKernel(&KernelOptions{Root: fstest.MapFS{"proc/kallsyms": {Data: text}}, Data: true})
	if err != nil {
		t.Fatal(err)
	}
	got, want := near.Resolve(nil, pcs), k.Resolve(nil, pcs)
	if near.size.Load() != 0 {
		t.Fatal("a table was read")
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%#x is named\n%+v without a table,\n%+v with one", pcs[i], got[i], want[i])
		}
	}
	if again := near.Resolve(nil, pcs[:1]); again[0] != want[0] || near.size.Load() == 0 {
		t.Fatalf("%#x is named %+v at the second call", pcs[0], again[0])
	}
}

func BenchmarkKallsymsRaw(b *testing.B) {
	buf := make([]byte, 1<<20)
	for b.Loop() {
		f, err := os.Open("/proc/kallsyms")
		if err != nil {
			b.Fatal(err)
		}
		for {
			if _, err := f.Read(buf); err != nil {
				break
			}
		}
		f.Close()
	}
}

func BenchmarkKallsymsCold(b *testing.B) {
	for b.Loop() {
		k, err := OpenKernel(nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := k.Err(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkKallsymsOnce(b *testing.B) {
	pcs := make([]uint64, 1000)
	for i := range pcs {
		pcs[i] = 0xffffffff81000000 + uint64(i)*12345
	}
	b.ReportAllocs()
	for b.Loop() {
		k, err := OpenKernel(nil)
		if err != nil {
			b.Fatal(err)
		}
		k.Resolve(nil, pcs)
	}
}

func BenchmarkKallsymsCached(b *testing.B) {
	opts := &KernelOptions{Cache: filepath.Join(b.TempDir(), "cache")}
	for b.Loop() {
		k, err := OpenKernel(opts)
		if err != nil || k.Err() != nil {
			b.Fatal("no kernel symbols")
		}
		if err := k.CacheErr(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkKallsymsParse(b *testing.B) {
	text, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		k, err := ParseKallsyms(bytes.NewReader(text))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(bytesOf(k)), "retained")
	}
}

func BenchmarkKernelResolve(b *testing.B) {
	k, err := OpenKernel(&KernelOptions{NameCache: 32 << 20})
	if err != nil || k.Err() != nil {
		b.Fatal("no kernel symbols")
	}
	t, _ := k.load()
	pcs := make([]uint64, 65536)
	for i := range pcs {
		pcs[i] = t.At(i*7919%t.Len()) + 1
	}
	var dst []Frame
	for range 2 {
		dst = k.Resolve(dst[:0], pcs)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		dst = k.Resolve(dst[:0], pcs[i&65535:i&65535+1])
		i++
	}
}

// symbolsOf returns the number of symbols, 0 if they cannot be read.
func symbolsOf(k *Kernel) int {
	if t, _ := k.load(); t != nil {
		return t.Len()
	}
	return 0
}

// bytesOf returns the memory of the table and the kept names, in bytes, without that of Source.
// It does not read the table.
func bytesOf(k *Kernel) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.memo.Bytes() + k.size.Load()
}
