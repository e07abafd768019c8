package probe

import (
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// What the workload of TestNewThreads starts, and touches in each thread.
const (
	newThreads     = 100
	pagesPerThread = 64
)

// A process that starts threads while it is attached to has each event counted
// once: as many as the kernel counts for the whole process.
func TestNewThreads(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestThreadStarter$")
	cmd.Env = append(os.Environ(), "PROBE_WORKLOAD=threads")
	in, out := testenv.Piped(t, cmd)
	defer func() { in.Close(); cmd.Wait() }()
	faults := func() (n uint64) { // the workload's, by its own count
		if err := binary.Read(out, binary.NativeEndian, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	next := func() {
		if _, err := in.Write([]byte{'n'}); err != nil {
			t.Fatal(err)
		}
	}
	target, err := ParseTarget("software:minor-faults:1")
	if err != nil {
		t.Fatal(err)
	}
	p := target.(Perf)
	p.PID = cmd.Process.Pid
	plan, err := Resolve(NewEnv(nil), []Target{p}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := loadCounter(t, plan, probetest.Counting{Value: -1})
	next()
	faults() // it starts threads
	l, err := plan.Attach(n.progs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	faults() // all are there
	next()
	before := faults()
	seen := n.read(t, 0).Count
	next() // they touch their pages
	made := faults() - before
	seen = n.read(t, 0).Count - seen
	if made < newThreads*pagesPerThread {
		t.Errorf("the kernel counts %d faults for %d pages", made, newThreads*pagesPerThread)
	}
	// The kernel counts its own accesses too, a few; a thread makes more.
	const few = pagesPerThread / 2
	if seen > made+few || seen+few < made && len(l.Missing()) == 0 {
		t.Errorf("%d faults seen of %d; left out %v", seen, made, l.Missing())
	}
}

// TestThreadStarter is the child of TestNewThreads.
func TestThreadStarter(t *testing.T) {
	if os.Getenv("PROBE_WORKLOAD") != "threads" {
		return
	}
	wait := func() {
		if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
			os.Exit(1)
		}
	}
	say := func() {
		var use syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
			t.Fatal(err)
		}
		if err := binary.Write(os.Stdout, binary.NativeEndian, uint64(use.Minflt)); err != nil {
			t.Fatal(err)
		}
	}
	size := pagesPerThread * os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, newThreads*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Madvise(mem, unix.MADV_NOHUGEPAGE) // EINVAL without huge pages
	wait()
	touch := make(chan struct{})
	var started, touched sync.WaitGroup
	for i := range newThreads {
		started.Add(1)
		touched.Go(func() {
			runtime.LockOSThread()
			started.Done()
			<-touch
			for at := i * size; at < (i+1)*size; at += os.Getpagesize() {
				mem[at] = 1
			}
		})
		started.Wait()
		if i == newThreads/10 {
			say()
		}
		time.Sleep(100 * time.Microsecond) // so that attaching comes between them
	}
	say()
	wait()
	say()
	wait()
	close(touch)
	touched.Wait()
	say()
	os.Exit(0)
}
