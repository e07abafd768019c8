package probe

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// faultsSeen returns how many page faults are seen of this process while f runs.
func faultsSeen(t *testing.T, o *AttachOptions, f func()) uint64 {
	t.Helper()
	target, err := ParseTarget("software:minor-faults:1")
	if err != nil {
		t.Fatal(err)
	}
	p := target.(Perf)
	p.PID = os.Getpid()
	plan, err := Resolve(NewEnv(nil), []Target{p}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := loadCounter(t, plan, probetest.Counting{Value: -1})
	l, err := plan.Attach(n.progs, o)
	testenv.SkipUnsupported(t, err)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	before := n.read(t, 0).Count
	f()
	return n.read(t, 0).Count - before
}

// TestExcludeKernel: the faults that the kernel causes are not seen, those of the program are.
func TestExcludeKernel(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	const pages = 1000
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zero.Close()
	touch := func(kernel bool) func() {
		return func() {
			m, err := unix.Mmap(-1, 0, pages*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Munmap(m)
			if err := unix.Madvise(m, unix.MADV_NOHUGEPAGE); err != nil && err != unix.EINVAL {
				t.Fatal(err)
			}
			for i := range pages {
				if !kernel {
					m[4096*i] = 1
				} else if _, err := zero.Read(m[4096*i : 4096*i+8]); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	user := &AttachOptions{ExcludeKernel: true}
	for _, c := range []struct {
		o      *AttachOptions
		kernel bool
		seen   bool
	}{{nil, true, true}, {nil, false, true}, {user, true, false}, {user, false, true}} {
		// Others of this process cause a few.
		if n := faultsSeen(t, c.o, touch(c.kernel)); (n >= pages) != c.seen || !c.seen && n > pages/2 {
			t.Errorf("%d pages touched, by the kernel %v: %d seen with %+v", pages, c.kernel, n, c.o)
		}
	}
}

// TestExcludeChildren: a process that is started has the samples or not.
func TestExcludeChildren(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	start := func() {
		cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^$")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	with := faultsSeen(t, nil, start)
	if own := faultsSeen(t, &AttachOptions{ExcludeChildren: true}, start); own > with/2 {
		t.Errorf("%d faults seen without children, %d with them", own, with)
	}
}
