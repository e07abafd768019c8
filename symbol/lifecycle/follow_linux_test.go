package lifecycle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/symbol"
)

// mapper is a program that maps files, one after the other, in one place: each line that it reads
// is a file and an offset into it. An empty line has it execute itself under the same name. It
// prints the place, and 0 when it begins.
func mapper() {
	const length = 1 << 12
	at := uintptr(0)
	fmt.Println(at)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var path string
		var offset uintptr
		if _, err := fmt.Sscan(in.Text(), &path, &offset); err != nil {
			exe, _ := os.Executable()
			err := syscall.Exec(exe, os.Args, os.Environ())
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		f, err := os.Open(path)
		if err == nil {
			flags := uintptr(unix.MAP_PRIVATE)
			if at != 0 {
				flags |= unix.MAP_FIXED
			}
			var no syscall.Errno
			at, _, no = unix.Syscall6(unix.SYS_MMAP, at, length, unix.PROT_READ|unix.PROT_EXEC, flags, f.Fd(), offset)
			if no != 0 {
				err = no
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		f.Close()
		fmt.Println(at)
	}
}

// TestFollowed: what a process maps where another file was, and what it executes under its old name,
// is known at once, without reading anything again; that it ended, too.
func TestFollowed(t *testing.T) {
	testenv.Need(t, testenv.Root)
	if os.Getenv("BORESCOPE_MAPPER") != "" {
		mapper()
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	data, err := os.ReadFile(exe)
	if err == nil {
		err = os.WriteFile(other, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	e, err := symbol.OpenELF(exe, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	place := func(name string) (page, in uint64) {
		t.Helper()
		fn, err := e.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		return fn.Offset &^ 4095, fn.Offset & 4095
	}

	ps := symbol.NewProcesses(nil)
	defer ps.Close()
	var mu sync.Mutex
	kinds := map[symbol.EventKind]int{}
	pid := 0
	f, err := Follow(ps, func(ev *symbol.Event) {
		mu.Lock()
		defer mu.Unlock()
		if ev.PID == pid {
			kinds[ev.Kind]++
		}
	})
	if err != nil {
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	defer f.Close()
	cmd := testenv.Command(t, exe, "-test.run=^TestFollowed$")
	cmd.Env = append(os.Environ(), "BORESCOPE_MAPPER=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	pid = cmd.Process.Pid
	mu.Unlock()
	lines := bufio.NewReader(out)
	answer := func() (at uint64) {
		t.Helper()
		if _, err := fmt.Fscanln(lines, &at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	maps := func(path, name string) (pc uint64) {
		t.Helper()
		page, offset := place(name)
		fmt.Fprintln(in, path, page)
		return answer() + offset
	}
	answer()
	first := maps(exe, "main.main")
	if err := f.Sync(); err != nil { // or that this was mapped would be said later
		t.Fatal(err)
	}
	p, err := ps.Process(pid)
	if err != nil {
		t.Fatal(err)
	}
	is := func(pc uint64, name, module string) {
		t.Helper()
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		if fr := p.Resolve(nil, []uint64{pc})[0]; fr.Name != name || fr.Module != module {
			t.Errorf("%#x is %s in %s, want %s in %s", pc, fr.Name, fr.Module, name, module)
		}
	}
	is(first, "main.main", exe)
	// Closer together than any age at which mappings are read again.
	before := time.Now()
	for range 5 {
		is(maps(other, "runtime.main"), "runtime.main", other)
		is(maps(exe, "main.main"), "main.main", exe)
	}
	t.Logf("ten mappings in %v", time.Since(before))
	mu.Lock()
	if kinds[symbol.EventMmap] != 10 {
		t.Errorf("%d of 10 mappings changed something", kinds[symbol.EventMmap])
	}
	mu.Unlock()

	fmt.Fprintln(in)
	answer() // it reads its next line when it is the next program
	again := maps(other, "runtime.main")
	is(again, "runtime.main", other)
	in.Close()
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil || !p.Exited() {
		t.Errorf("its end is not known: %v", err)
	}
	is(again, "runtime.main", other)
	mu.Lock()
	// Where another thread than the first one executes a program, the first one ends.
	if kinds[symbol.EventExec] != 1 || kinds[symbol.EventExit] < 1 || kinds[symbol.EventExit] > 2 {
		t.Errorf("events: %v", kinds)
	}
	mu.Unlock()
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if err := f.Sync(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
