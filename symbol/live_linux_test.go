package symbol

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
)

// spin is called by address only.
//
//go:noinline
func spin(n int) int { return n + 1 }

// TestThisProcess names a function of this test, which is stripped, and one of
// the vdso.
func TestThisProcess(t *testing.T) {
	p, err := OpenProcess(os.Getpid(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	f := p.Resolve(nil, []uint64{uint64(reflect.ValueOf(spin).Pointer())})[0]
	_, file, line, _ := runtime.Caller(0)
	if f.Name != "github.com/borescope/borescope/symbol.spin" || f.Kind != KindGo || f.File != file || f.Line < 5 || f.Line > line {
		t.Errorf("got %+v", f)
	}
	for i := range p.maps {
		if m := &p.maps[i]; m.path == "[vdso]" {
			list, err := p.Match(Exact("__vdso_clock_gettime"))
			if runtime.GOARCH == "amd64" && (err != nil || len(list) != 1) {
				t.Fatalf("vdso: %+v %v", list, err)
			}
			if len(list) == 1 {
				f := p.Resolve(nil, []uint64{list[0].Addr})[0]
				if !strings.Contains(f.Name, "clock_gettime") || f.Kind != KindVDSO || f.Module != "[vdso]" {
					t.Errorf("got %+v", f)
				}
			}
		}
	}
	if p.Comm() == "" || p.StartTime() == 0 {
		t.Errorf("comm %q, start %d", p.Comm(), p.StartTime())
	}
}

// lookupIn returns the address of a function in a live process.
func lookupIn(t *testing.T, p *Process, name string) uint64 {
	t.Helper()
	list, err := p.Match(Exact(name))
	if err != nil || len(list) == 0 {
		t.Fatalf("%s: %v %v", name, list, err)
	}
	return list[0].Addr
}

// TestDeadProcess names what ran in a process that ended, from a program whose
// file was deleted while it ran.
func TestDeadProcess(t *testing.T) {
	testenv.Need(t, testenv.Tool("cat"))
	src, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(src)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "catty (deleted) x")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, path)
	testenv.Echoing(t, cmd)
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	ps := NewProcesses(nil)
	defer ps.Close()
	if err := ps.Observe(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	p, err := ps.Process(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	pc := lookupIn(t, p, "nanosleep")
	f := p.Resolve(nil, []uint64{pc + 1})[0]
	if !strings.Contains(f.Name, "nanosleep") || !strings.Contains(f.Module, "libc.so") || f.Offset != 1 {
		t.Errorf("got %+v", f)
	}
	var own *mapping
	for i := range p.maps {
		if p.maps[i].path == path {
			own = &p.maps[i]
		}
	}
	if own == nil {
		t.Fatal("the deleted program has no mapping")
	}
	f = p.Resolve(nil, []uint64{own.start + 0x100})[0]
	canOpen := unix.Access("/proc/self/map_files", unix.R_OK) == nil && os.Geteuid() == 0
	if canOpen && (f.BuildID == "" || f.Reason == ReasonNoFile) {
		t.Errorf("the deleted program cannot be read: %+v", f)
	}
}

// TestOverwrittenLibrary sees that a file that was replaced in place is read
// again.
func TestOverwrittenLibrary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lib")
	first := buildELF(t, testFile{syms: testSyms})
	if err := os.WriteFile(path, first, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0x1000, 0x1000, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	addr := uint64(uintptr(unsafe.Pointer(&mem[0])))
	ps := NewProcesses(nil)
	defer ps.Close()
	p, err := ps.Process(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if got := frameNames(p.Resolve(nil, []uint64{addr + 0x14})); got != "innermost" {
		t.Fatalf("got %s", got)
	}
	second := bytes.ReplaceAll(first, []byte("innermost"), []byte("INNERMOST"))
	if err := os.WriteFile(path, second, 0o755); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	ps.now = func() time.Time { return time.Now().Add(time.Minute) }
	if p, err = ps.Process(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if got := frameNames(p.Resolve(nil, []uint64{addr + 0x14})); got != "INNERMOST" {
		t.Errorf("got %s", got)
	}
}

// TestMemfd names code in a file that never had a path.
func TestMemfd(t *testing.T) {
	fd, err := unix.MemfdCreate("jit-code", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	defer f.Close()
	if _, err := f.Write(buildELF(t, testFile{syms: testSyms})); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(fd, 0x1000, 0x1000, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	p, err := OpenProcess(os.Getpid(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	fr := p.Resolve(nil, []uint64{uint64(uintptr(unsafe.Pointer(&mem[0]))) + 0x14})[0]
	if fr.Reason == ReasonNoFile {
		testenv.Need(t, testenv.Root) // for map_files
	}
	if fr.Name != "innermost" || fr.Module != "/memfd:jit-code" {
		t.Errorf("got %+v", fr)
	}
}

// TestPerfMapOfThisProcess reads a map that grows while it is used, and is not
// kept waiting by one that is a FIFO.
func TestPerfMapOfThisProcess(t *testing.T) {
	path := "/tmp/perf-" + strconv.Itoa(os.Getpid()) + ".map"
	mem, err := unix.Mmap(-1, 0, 0x1000, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	addr := uint64(uintptr(unsafe.Pointer(&mem[0])))
	ps := NewProcesses(nil)
	defer ps.Close()
	now := time.Now()
	ps.now = func() time.Time { return now }
	p, err := ps.Process(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	if got := frameNames(p.Resolve(nil, []uint64{addr})); got != "(anonymous memory)" {
		t.Errorf("with a FIFO: %s", got)
	}
	os.Remove(path)
	write := func(s string) {
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
	}
	write(fmt.Sprintf("%x 10 LazyCompile:*f a.js:1\n", addr))
	if got := frameNames(p.Resolve(nil, []uint64{addr + 4, addr + 0x20})); got != "LazyCompile:*f a.js:1 (anonymous memory)" {
		t.Errorf("got %s", got)
	}
	write(fmt.Sprintf("%x 10 f\n%x 10 g\n", addr, addr+0x20))
	if got := frameNames(p.Resolve(nil, []uint64{addr + 0x20})); got != "g" {
		t.Errorf("after it grew: %s", got)
	}
	// A name that is known is asked for again: compilers put other code there.
	write(fmt.Sprintf("%x 10 f\n%x 10 g\n%x 10 later\n", addr, addr+0x20, addr+0x20))
	if got := frameNames(p.Resolve(nil, []uint64{addr + 0x20})); got != "later" {
		t.Errorf("after a later line for the same address: %s", got)
	}
	write(fmt.Sprintf("%x 10 f\n%x 10 g\n%x 10 again\n", addr, addr+0x20, addr+0x20))
	if err := os.Chtimes(path, now, now); err != nil {
		t.Fatal(err)
	}
	if got := frameNames(p.Resolve(nil, []uint64{addr + 0x20})); got != "again" {
		t.Errorf("after as many other bytes: %s", got)
	}
}

// TestMemoryFiles names code in files that are memory: they were said to be
// malformed, and the perf map was not asked.
func TestMemoryFiles(t *testing.T) {
	testenv.Need(t, testenv.Root) // for map_files
	t.Run("memfd", func(t *testing.T) {
		fd, err := unix.MemfdCreate("jit-code", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		memoryFile(t, os.NewFile(uintptr(fd), "memfd"))
	})
	t.Run("shm", func(t *testing.T) {
		f, err := os.CreateTemp("/dev/shm", "borescope")
		testenv.Need(t, testenv.Got("/dev/shm", err))
		if err := os.Remove(f.Name()); err != nil {
			t.Fatal(err)
		}
		memoryFile(t, f)
	})
}

func memoryFile(t *testing.T, f *os.File) {
	defer f.Close()
	if err := f.Truncate(0x1000); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, 0x1000, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_SHARED)
	testenv.Need(t, testenv.Got("code in "+f.Name(), err, "operation not permitted")) // mounted noexec
	defer unix.Munmap(mem)
	at := uint64(uintptr(unsafe.Pointer(&mem[0])))
	path := "/tmp/perf-" + strconv.Itoa(os.Getpid()) + ".map"
	if err := os.WriteFile(path, fmt.Appendf(nil, "%x 10 code\n", at), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	p, err := OpenProcess(os.Getpid(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got := frameNames(p.Resolve(nil, []uint64{at + 4, at + 0x40})); got != "code (anonymous memory)" {
		t.Errorf("got %s", got)
	}
}

// TestOtherRoot names code of a program in another root directory, whose path
// /proc shows as it is seen from here.
func TestOtherRoot(t *testing.T) {
	testenv.Need(t, testenv.Root)
	self := staticProgram(t)
	root := t.TempDir()
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "prog"), b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, "/prog")
	cmd.SysProcAttr = &unix.SysProcAttr{Chroot: root}
	cmd.Dir = "/"
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	ps := NewProcesses(nil)
	defer ps.Close()
	p, err := ps.Process(cmd.Process.Pid)
	for range 100 {
		if err == nil && len(p.maps) > 0 && strings.HasSuffix(p.maps[0].path, "/prog") {
			break
		}
		time.Sleep(5 * time.Millisecond)
		ps.now = func() time.Time { return time.Now().Add(time.Hour) }
		p, err = ps.Process(cmd.Process.Pid)
	}
	if err != nil {
		t.Fatal(err)
	}
	list, err := p.Match(Exact("runtime.main"))
	if err != nil || len(list) != 1 || !strings.HasSuffix(list[0].Module, "/prog") {
		t.Fatalf("got %+v %v", list, err)
	}
	if f := p.Resolve(nil, []uint64{list[0].Addr})[0]; f.Name != "runtime.main" {
		t.Errorf("got %+v", f)
	}
}

// staticProgram returns a program that sleeps and needs no other file.
func staticProgram(t *testing.T) string {
	testenv.Need(t, testenv.Go)
	dir := t.TempDir()
	src := "package main\n\nimport \"time\"\n\nfunc main() { time.Sleep(time.Minute) }\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "sleeper")
	cmd := testenv.Command(t, "go", "build", "-o", path, filepath.Join(dir, "main.go"))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}
