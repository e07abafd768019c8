//go:build amd64 || arm64

package provider

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/usdt"
	"github.com/borescope/borescope/usdt/arg"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// regOffset is where struct pt_regs has the DWARF register n.
func regOffset(n int) int16 {
	if runtime.GOARCH == "arm64" {
		return int16(n * 8)
	}
	// rax rdx rcx rbx rsi rdi rbp rsp r8 … r15
	return [...]int16{80, 96, 88, 40, 104, 112, 32, 152, 72, 64, 56, 48, 24, 16, 8, 0}[n]
}

// hit is what the tracing program stores: how often the site fired, and the
// argument registers of the last time.
type hit struct {
	Count uint64
	Args  [usdt.MaxArgs]uint64
}

// tracer counts the fires of one site with a BPF program.
type tracer struct {
	values *ebpf.Map
	prog   *ebpf.Program
	link   link.Link
}

func attach(t testing.TB, path string, site usdt.Site, opts *link.UprobeOptions) *tracer {
	t.Helper()
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	tr := &tracer{}
	var err error
	if tr.values, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: uint32(unsafe.Sizeof(hit{})), MaxEntries: 1}); err != nil {
		t.Fatal(err)
	}
	insns := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, tr.values.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
	}
	for i, a := range site.Args {
		insns = append(insns,
			asm.LoadMem(asm.R1, asm.R6, regOffset(int(a.Reg.Num)), asm.DWord),
			asm.StoreMem(asm.R0, int16(8+8*i), asm.R1, asm.DWord))
	}
	insns = append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"), asm.Return())
	if tr.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Kprobe, Instructions: insns, License: "MIT"}); err != nil {
		t.Fatal(err)
	}
	ex, err := link.OpenExecutable(path)
	if err != nil {
		t.Fatal(err)
	}
	if opts == nil {
		opts = &link.UprobeOptions{RefCtrOffset: site.SemaphoreOffset}
	}
	opts.Address = site.Offset
	if tr.link, err = ex.Uprobe("", tr.prog, opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.close)
	return tr
}

func (tr *tracer) close() {
	tr.link.Close()
	tr.prog.Close()
	tr.values.Close()
}

func (tr *tracer) read(t testing.TB) hit {
	t.Helper()
	var h hit
	if err := tr.values.Lookup(uint32(0), &h); err != nil {
		t.Fatal(err)
	}
	return h
}

// siteOf finds a probe's site in the loaded provider.
func siteOf(t testing.TB, p *Provider, name string) usdt.Site {
	t.Helper()
	f, err := usdt.Open(p.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sites, err := f.Sites()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sites {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no site %s", name)
	return usdt.Site{}
}

func TestTraced(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	for _, kind := range []string{"memfd", "file"} {
		t.Run(kind, func(t *testing.T) {
			p, probes := all(t)
			load := p.Load
			if kind == "file" {
				load = func() error { return p.LoadFile(t.TempDir()) }
			}
			if err := load(); err != nil {
				t.Fatal(err)
			}
			defer p.Unload()
			twelve, narrow, text := probes[4], probes[5], probes[3]
			// Several attachments, so that the semaphore counts.
			for round := range 2 {
				site := siteOf(t, p, "twelve")
				tr := attach(t, p.Path(), site, nil)
				if !twelve.Enabled() || narrow.Enabled() {
					t.Fatalf("round %d: twelve %v, narrow %v", round, twelve.Enabled(), narrow.Enabled())
				}
				second := attach(t, p.Path(), site, nil)
				for i := range 23 {
					if err := twelve.Fire(i, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 1<<63-1); err != nil {
						t.Fatal(err)
					}
				}
				want := hit{23, [12]uint64{22, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 1<<63 - 1}}
				if got := tr.read(t); got != want {
					t.Errorf("got  %+v\nwant %+v", got, want)
				}
				tr.link.Close()
				if !twelve.Enabled() {
					t.Error("disabled while the second tracer is attached")
				}
				second.link.Close()
				if twelve.Enabled() {
					t.Error("enabled after the last tracer left")
				}
			}
			tr := attach(t, p.Path(), siteOf(t, p, "strings"), nil)
			path := strings.Repeat("p", 11)
			_ = text.Fire(&path, path, "copy")
			got := tr.read(t)
			// A copy is in this process's memory no more: its address is all there is.
			if got.Count != 1 || got.Args[0] != uint64(uintptr(unsafe.Pointer(&path))) || got.Args[1] != uint64(uintptr(unsafe.Pointer(unsafe.StringData(path)))) || got.Args[2] != 11 || got.Args[3] == 0 {
				t.Errorf("strings: %+v", got)
			}
			tr = attach(t, p.Path(), siteOf(t, p, "narrow"), nil)
			_ = narrow.Fire(-1, -2, -3, 1, 2, 3, -1, -2, -3, 1, 2, 3)
			got = tr.read(t)
			for i, want := range []int32{-1, -2, -3, 1, 2, 3, -1, -2, -3, 1, 2, 3} {
				if int32(got.Args[i]) != want {
					t.Errorf("narrow: argument %d is %#x, want %d", i, got.Args[i], want)
				}
			}
		})
	}
}

// TestSameInodeNumber: bcc knows the file of a mapping by its inode's number, which
// files of other file systems may have, too.
func TestSameInodeNumber(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts)
	if !testenv.OwnMounts(t) {
		return
	}
	runtime.LockOSThread() // memfds have numbers by CPU
	defer runtime.UnlockOSThread()
	var cpu, before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	defer unix.SchedSetaffinity(0, &before)
	for i := 0; cpu.Count() == 0; i++ {
		if before.IsSet(i) {
			cpu.Set(i)
		}
	}
	if err := unix.SchedSetaffinity(0, &cpu); err != nil {
		t.Fatal(err)
	}
	memfd, err := unix.MemfdCreate("number", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	last := inode(t, memfd)
	unix.Close(memfd)

	// The inodes of a tmpfs of one's own are numbered from the start.
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	taken := map[uint64]bool{}
	for len(taken) < 5 {
		f, err := os.Create(dir + "/file")
		if err != nil {
			t.Fatal(err)
		}
		if n := inode(t, int(f.Fd())); n > last {
			taken[n] = true
			defer f.Close()
		} else {
			f.Close()
		}
		os.Remove(f.Name())
	}
	p, _ := all(t)
	if err := p.Load(); err != nil {
		t.Fatal(err)
	}
	defer p.Unload()
	var st unix.Stat_t
	if err := unix.Stat(p.Path(), &st); err != nil || taken[st.Ino] || st.Ino <= last {
		t.Errorf("%v: the file has the inode number %d, after %d; others have %v", err, st.Ino, last, taken)
	}
}

func inode(t *testing.T, fd int) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// TestUnloadWhileTraced unloads and loads under fire from several goroutines,
// with a tracer attached most of the time.
func TestUnloadWhileTraced(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	p, probes := all(t)
	if err := p.Load(); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	var rounds [4]atomic.Uint64
	for i := range rounds {
		wg.Go(func() {
			for ; !stop.Load(); rounds[i].Add(1) {
				if probes[1].Enabled() || i%2 == 0 {
					_ = probes[1].Fire(i, i, i, i)
				}
			}
		})
	}
	for range 6 {
		tr := attach(t, p.Path(), siteOf(t, p, "signed"), nil)
		for begin := time.Now(); tr.read(t).Count < 100; time.Sleep(time.Millisecond) {
			if time.Since(begin) > 10*time.Second {
				t.Fatal("the probe doesn't fire")
			}
		}
		if err := p.Unload(); err != nil {
			t.Fatal(err)
		}
		if probes[1].Enabled() {
			t.Error("enabled after Unload")
		}
		// What was under way may have met the breakpoint, and be kept from the
		// tracer's program by whoever else runs.
		for i := range rounds {
			for was := rounds[i].Load(); rounds[i].Load() == was; {
				time.Sleep(100 * time.Microsecond)
			}
		}
		before := tr.read(t).Count
		time.Sleep(time.Millisecond)
		if after := tr.read(t).Count; after != before {
			t.Errorf("fired %d times after Unload", after-before)
		}
		tr.link.Close()
		if err := p.Load(); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wg.Wait()
	if err := p.Unload(); err != nil {
		t.Fatal(err)
	}
}

// TestExactUnderPressure fires from 16 goroutines with growing stacks, while
// the garbage collector runs without a pause and the CPU profiler is on: every
// fire is counted, with the right arguments.
func TestExactUnderPressure(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	const goroutines = 16
	each := 3000
	if testing.Short() {
		each = 100
	}
	if *long {
		each = 10_000_000 / goroutines
	}
	p, _ := New("pressure")
	probe := p.Probe("tick", arg.Int64, arg.String)
	if err := p.Load(); err != nil {
		t.Fatal(err)
	}
	defer p.Unload()
	tr := attach(t, p.Path(), siteOf(t, p, "tick"), nil)
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err == nil {
		defer pprof.StopCPUProfile()
	}
	var stop atomic.Bool
	var background, wg sync.WaitGroup
	background.Go(func() {
		for !stop.Load() {
			runtime.GC()
		}
	})
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				deep(i%64, func() {
					var buf [16]byte // on the stack that moves
					s := unsafe.String(&buf[0], copy(buf[:], "0123456789"))
					if err := probe.Fire(g, s); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
	wg.Wait()
	stop.Store(true)
	background.Wait()
	if got := tr.read(t).Count; got != uint64(goroutines*each) {
		t.Errorf("counted %d fires of %d", got, goroutines*each)
	}
}

// deep calls f on a stack that had to grow.
func deep(n int, f func()) byte {
	var pad [256]byte
	if n == 0 {
		f()
		return pad[0]
	}
	pad[n] = deep(n-1, f)
	return pad[n/2]
}

// TestMemoryDenyWriteExecute loads under the protection that systemd's
// MemoryDenyWriteExecute=yes gives (PR_SET_MDWE, Linux 6.3), in a process of
// its own.
func TestMemoryDenyWriteExecute(t *testing.T) {
	supported(t)
	if os.Getenv("PROVIDER_TEST_MDWE") != "" {
		if err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0); err != nil {
			fmt.Println("skip", err)
			return
		}
		p, probes := all(t)
		err := p.Load()
		_ = probes[0].Fire()
		fmt.Println("loaded", err, p.Unload())
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, exe, "-test.run=^TestMemoryDenyWriteExecute$")
	cmd.Env = append(os.Environ(), "PROVIDER_TEST_MDWE=1")
	out, err := cmd.CombinedOutput()
	switch {
	case bytes.Contains(out, []byte("skip ")):
		testenv.Need(t, testenv.Missing("MDWE", string(out)))
	case err != nil || !bytes.Contains(out, []byte("loaded <nil> <nil>")):
		t.Errorf("%v: %s", err, out)
	}
}

// TestTwoProviders has two of them in one process, one unloaded under the
// other's fire.
func TestTwoProviders(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	a, aProbes := all(t)
	b, bProbes := all(t)
	if err := errors.Join(a.Load(), b.Load()); err != nil {
		t.Fatal(err)
	}
	defer b.Unload()
	tr := attach(t, b.Path(), siteOf(t, b, "none"), nil)
	_ = aProbes[0].Fire()
	_ = bProbes[0].Fire()
	if err := a.Unload(); err != nil {
		t.Fatal(err)
	}
	_ = aProbes[0].Fire()
	_ = bProbes[0].Fire()
	if aProbes[0].Enabled() || !bProbes[0].Enabled() || tr.read(t).Count != 2 {
		t.Errorf("a %v, b %v, %+v", aProbes[0].Enabled(), bProbes[0].Enabled(), tr.read(t))
	}
}

// TestNoFilesLeft asserts that memory of a provider is given back.
func TestNoFilesLeft(t *testing.T) {
	supported(t)
	p, _ := all(t)
	if err := p.Load(); err != nil {
		t.Fatal(err)
	}
	if n := mappings(t); n != 2 {
		t.Errorf("%d mappings while loaded", n)
	}
	if err := p.Unload(); err != nil {
		t.Fatal(err)
	}
	if n := mappings(t); n != 0 {
		t.Errorf("%d mappings after Unload", n)
	}
	if left, _ := filepath.Glob(os.TempDir() + "/usdt-app-*.so"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// mappings counts this process's mappings of providers' files.
func mappings(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "/memfd:usdt-app (deleted)")
}
