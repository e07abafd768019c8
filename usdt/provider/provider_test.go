package provider

import (
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/usdtfire"
	"github.com/borescope/borescope/usdt"
	"github.com/borescope/borescope/usdt/arg"
)

// all is a provider with all kinds of arguments, and as many as there may be.
func all(t testing.TB) (*Provider, []*Probe) {
	p, err := New("app")
	if err != nil {
		t.Fatal(err)
	}
	return p, []*Probe{
		p.Probe("none"),
		p.Probe("signed", arg.Int8, arg.Int16, arg.Int32, arg.Int64),
		p.Probe("unsigned", arg.Uint8, arg.Uint16, arg.Uint32, arg.Uint64),
		p.Probe("strings", arg.Pointer, arg.String, arg.CString),
		p.Probe("twelve", arg.Uint64, arg.Uint64, arg.Uint64, arg.Uint64, arg.Uint64, arg.Uint64, arg.Uint64, arg.Uint64, arg.Uint64, arg.Uint64, arg.Uint64, arg.Uint64),
		p.Probe("narrow", arg.Int8, arg.Int16, arg.Int32, arg.Uint8, arg.Uint16, arg.Uint32, arg.Int8, arg.Int16, arg.Int32, arg.Uint8, arg.Uint16, arg.Uint32),
		p.Probe("twice", arg.Int32),
		p.Probe("twice", arg.Int64),
	}
}

var long = flag.Bool("long", false, "fire 10 million times in TestExactUnderPressure")

func supported(t testing.TB) {
	if _, ok := usdtfire.Targets[runtime.GOARCH]; !ok || runtime.GOOS != "linux" {
		testenv.Need(t, testenv.Missing("provider", "none on "+runtime.GOOS+"/"+runtime.GOARCH))
	}
}

// TestImage reads the object that is built for each machine with package usdt,
// debug/elf and readelf.
func TestImage(t *testing.T) {
	want := map[string]string{
		"amd64": `none []
signed [-1@%dil -2@%si -4@%edx -8@%rcx]
unsigned [1@%dil 2@%si 4@%edx 8@%rcx]
strings [8@%rdi 8@%rsi -8@%rdx 8@%rcx]
twelve [8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8 8@%r9 8@%rax 8@%r10 8@%r11 8@%r12 8@%r13 8@%rbx]
narrow [-1@%dil -2@%si -4@%edx 1@%cl 2@%r8w 4@%r9d -1@%al -2@%r10w -4@%r11d 1@%r12b 2@%r13w 4@%ebx]
twice [-4@%edi]
twice [-8@%rdi]
`,
		"arm64": `none []
signed [-1@x0 -2@x1 -4@x2 -8@x3]
unsigned [1@x0 2@x1 4@x2 8@x3]
strings [8@x0 8@x1 -8@x2 8@x3]
twelve [8@x0 8@x1 8@x2 8@x3 8@x4 8@x5 8@x6 8@x7 8@x8 8@x9 8@x10 8@x11]
narrow [-1@x0 -2@x1 -4@x2 1@x3 2@x4 4@x5 -1@x6 -2@x7 -4@x8 1@x9 2@x10 4@x11]
twice [-4@x0]
twice [-8@x0]
`,
	}
	for arch, tgt := range usdtfire.Targets {
		for _, page := range []int{4096, 65536} {
			t.Run(fmt.Sprint(arch, page), func(t *testing.T) {
				p, _ := all(t)
				im := buildImage(tgt, p.name, p.probes, page)
				if _, err := elf.NewFile(bytes.NewReader(im.bytes)); err != nil {
					t.Fatal(err)
				}
				f, err := usdt.NewFile(bytes.NewReader(im.bytes))
				if err != nil {
					t.Fatal(err)
				}
				sites, err := f.Sites()
				if err != nil {
					t.Fatal(err)
				}
				var got strings.Builder
				for i, s := range sites {
					fmt.Fprintln(&got, s.Name, s.Args)
					if s.Err != nil || s.Nop != "nop" || s.PC != uint64(im.stub(i)) || s.Semaphore != uint64(im.semaphore(i)) || s.Offset != s.PC || s.SemaphoreOffset != s.Semaphore {
						t.Errorf("site %+v", s)
					}
					for _, a := range s.Args {
						if a.Reason != usdt.ReasonNone || a.Kind != usdt.KindReg {
							t.Errorf("%s: %v", a, a.Reason)
						}
					}
				}
				if got.String() != want[arch] {
					t.Errorf("got:\n%s\nwant:\n%s", got.String(), want[arch])
				}
				readelfClean(t, im.bytes)
			})
		}
	}
}

// readelfClean checks that readelf reads all of a file without a complaint.
func readelfClean(t *testing.T, b []byte) {
	if _, err := exec.LookPath("readelf"); err != nil {
		return
	}
	path := t.TempDir() + "/image"
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := testenv.Command(t, "readelf", "-aW", path)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 || bytes.Contains(out, []byte("arning")) {
		t.Errorf("readelf: %v\n%s", err, &stderr)
	}
	if !bytes.Contains(out, []byte("usdt_app_twelve")) {
		t.Error("no symbol for a stub")
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"", "a b", "a:b", "a\x00", "ä", strings.Repeat("x", 129)} {
		if _, err := New(name); err == nil {
			t.Errorf("provider %q is accepted", name)
		}
		p, _ := New("ok")
		if probe := p.Probe(name); probe.Enabled() {
			t.Errorf("probe %q is enabled", name)
		}
		if err := p.Load(); err == nil {
			t.Errorf("probe %q is accepted", name)
		}
	}
	p, _ := New("ok")
	p.Probe("many", arg.String, arg.String, arg.String, arg.String, arg.String, arg.String, arg.Int8)
	if err := p.Load(); err == nil || !strings.Contains(err.Error(), "13 arguments") {
		t.Errorf("13 arguments: %v", err)
	}
	p, _ = New("ok")
	if err := p.Load(); err == nil {
		t.Error("a provider without probes is loaded")
	}
	p.Probe("x", arg.Type(99))
	if err := p.Load(); err == nil || !strings.Contains(err.Error(), "type 99") {
		t.Errorf("type 99: %v", err)
	}
}

func TestLifeCycle(t *testing.T) {
	p, probes := all(t)
	twelve := probes[4]
	if twelve.Enabled() || twelve.Fire() != nil || p.Path() != "" {
		t.Error("a provider that is not loaded does something")
	}
	if err := p.Unload(); err != nil {
		t.Error(err)
	}
	err := p.Load()
	var unsupported *UnsupportedError
	if errors.As(err, &unsupported) && errors.Is(err, errors.ErrUnsupported) {
		supported(t)
	}
	for range 3 {
		if err := p.Load(); err != nil {
			t.Fatal(err)
		}
		if err := p.Load(); err != nil {
			t.Fatal(err)
		}
		sites := readSites(t, p.Path())
		if len(sites) != len(probes) {
			t.Errorf("%d sites", len(sites))
		}
		if err := twelve.Fire(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12); err != nil {
			t.Error(err)
		}
		if twelve.Enabled() {
			t.Error("enabled without a tracer")
		}
		if err := p.Unload(); err != nil {
			t.Fatal(err)
		}
		if twelve.Enabled() || twelve.Fire() != nil {
			t.Error("fires after Unload")
		}
		late := p.Probe("late", arg.Int8)
		if late.Enabled() || late.Fire() != nil {
			t.Error("a late probe does something")
		}
		probes = append(probes, late)
	}
	var none *Provider
	if err := none.Unload(); err != nil {
		t.Error(err)
	}
}

func readSites(t *testing.T, path string) []usdt.Site {
	t.Helper()
	f, err := usdt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sites, err := f.Sites()
	if err != nil {
		t.Fatal(err)
	}
	return sites
}

func TestLoadFile(t *testing.T) {
	supported(t)
	dir := t.TempDir()
	p, probes := all(t)
	if err := p.LoadFile(dir); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(p.Path(), dir) || len(readSites(t, p.Path())) != len(probes) {
		t.Errorf("path is %q", p.Path())
	}
	path := p.Path()
	if err := p.Unload(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left behind: %v", path, err)
	}
	if err := p.LoadFile(dir + "/nosuch"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if err := p.LoadFile(""); err == nil {
		t.Error("no directory is accepted")
	}
}

func TestFireArguments(t *testing.T) {
	supported(t)
	p, probes := all(t)
	if err := p.Load(); err != nil {
		t.Fatal(err)
	}
	defer p.Unload()
	type id uint32
	type name string
	x := 5
	good := [][]any{
		{1, 2, 3, 4},
		{int8(1), int16(2), int32(3), int64(4)},
		{uint8(1), uint16(2), uint32(3), uint64(4)},
		{id(1), true, uintptr(2), -1},
	}
	for _, args := range good {
		if err := probes[1].Fire(args...); err != nil {
			t.Error(err)
		}
	}
	for _, args := range [][]any{{}, {1, 2, 3}, {1, 2, 3, "4"}, {1, 2, 3, 4, 5}, {1.5, 2, 3, 4}, {nil, 2, 3, 4}, {&x, 2, 3, 4}} {
		if err := probes[1].Fire(args...); !errors.Is(err, arg.ErrMismatch) {
			t.Errorf("%v: %v", args, err)
		}
	}
	for _, args := range [][]any{{&x, "a", "b"}, {nil, "", ""}, {uintptr(1), []byte("a"), []byte(nil)}, {&x, name("a"), strings.Repeat("long", 1000)}} {
		if args[0] == nil {
			args[0] = (*int)(nil)
		}
		if err := probes[3].Fire(args...); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
	if err := probes[3].Fire(&x, 1, "b"); !errors.Is(err, arg.ErrMismatch) || !strings.Contains(err.Error(), "argument 1") {
		t.Errorf("string: %v", err)
	}
	if err := probes[3].Fire("p", "a", "b"); !errors.Is(err, arg.ErrMismatch) || !strings.Contains(err.Error(), "argument 0") {
		t.Errorf("pointer: %v", err)
	}
}

func TestAllocations(t *testing.T) {
	supported(t)
	p, probes := all(t)
	text := p.Probe("text", arg.Pointer, arg.String, arg.String)
	if err := p.Load(); err != nil {
		t.Fatal(err)
	}
	defer p.Unload()
	id, path, raw := 1000, strings.Repeat("x", 100), make([]byte, 10)
	for name, f := range map[string]func(){
		"enabled":  func() { _ = probes[0].Enabled() },
		"integers": func() { _ = probes[1].Fire(id, id+1, id+2, id+3) },
		"strings":  func() { _ = text.Fire(&id, path, raw) },
		"twelve":   func() { _ = probes[4].Fire(id, id, id, id, id, id, id, id, id, id, id, id) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkDisabled(b *testing.B) {
	supported(b)
	p, probes := all(b)
	if err := p.Load(); err != nil {
		b.Fatal(err)
	}
	defer p.Unload()
	req := probes[1]
	for i := 0; i < b.N; i++ {
		if req.Enabled() {
			_ = req.Fire(i, i, i, i)
		}
	}
}

func BenchmarkFireUntraced(b *testing.B) {
	supported(b)
	p, probes := all(b)
	if err := p.Load(); err != nil {
		b.Fatal(err)
	}
	defer p.Unload()
	path := "/index.html"
	b.Run("integers", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			_ = probes[1].Fire(i, i, i, i)
		}
	})
	b.Run("string", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			_ = probes[3].Fire(&path, path, path)
		}
	})
}
