package script_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script"
)

// noFile is a descriptor that no file has.
const noFile = 1<<31 - 2

// calling has a thread on each CPU call getppid and read until it is stopped, which returns how often they
// did. There is one for each, as those that preempt each other have events missed.
func calling() (stop func() uint64) {
	var calls atomic.Uint64
	var end atomic.Bool
	var wg sync.WaitGroup
	for cpu := range runtime.NumCPU() {
		wg.Go(func() {
			runtime.LockOSThread() // and the thread ends with it
			var own unix.CPUSet
			own.Set(cpu)
			_ = unix.SchedSetaffinity(0, &own)
			n := uint64(0)
			for ; !end.Load(); n++ {
				_, _, _ = syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
				_, _, _ = syscall.RawSyscall(syscall.SYS_READ, noFile, 0, 0)
			}
			calls.Add(n)
		})
	}
	return func() uint64 { end.Store(true); wg.Wait(); return calls.Load() }
}

// versions attaches two versions of a script that differ in what they have besides.
func versions(t *testing.T, h *bpf.Handover, text string) (list [2]*script.Session) {
	t.Helper()
	for i, more := range []string{"", "\nbegin { @begun = count(); }"} {
		p := script.MustCompile(t, text+more, &script.Options{
			Params: []string{strconv.Itoa(os.Getpid())}, IncludeSelf: true,
		})
		s, err := script.Attach(t.Context(), p, &script.AttachOptions{Handover: h})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		list[i] = s
	}
	return list
}

// TestHandover: of two versions that take turns while there are events, one counts each event. Where the
// kernel may preempt a thread between them, few are counted twice or by none.
func TestHandover(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs, testenv.Arch("amd64"))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + 1)) // what takes over need not wait for a thread's end
	preempted := feature.KernelAtLeast("7.0")                          // between the programs of tracepoints
	for _, c := range []struct {
		probe string // with a filter, or none
		exact bool
		needs []testenv.Requirement
	}{
		{"tracepoint:syscalls:sys_enter_getppid", !preempted, nil},
		{"kprobe:__x64_sys_getppid", true, []testenv.Requirement{testenv.Kprobes}},
		{"kretprobe:__x64_sys_getppid", true, []testenv.Requirement{testenv.Kprobes}},
		{fmt.Sprintf("fentry:ksys_read / args.fd == %d /", noFile), false, []testenv.Requirement{testenv.Fentry}},
	} {
		target, filter, _ := strings.Cut(c.probe, "/")
		t.Run(strings.TrimSpace(target), func(t *testing.T) {
			testenv.Need(t, c.needs...)
			h, err := bpf.NewHandover()
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			if filter = strings.TrimSuffix(filter, "/"); filter != "" {
				filter += "&&"
			}
			list := versions(t, h, target+" / "+filter+" pid == $1/ { @n = count(); }")
			if err := list[0].TakeOver(); err != nil {
				t.Fatal(err)
			}
			stop := calling()
			turns := testenv.Times(40, 10)
			for i := range turns {
				if err := list[(i+1)%2].TakeOver(); err != nil {
					t.Error(err)
				}
			}
			want, got := stop(), uint64(0)
			for _, s := range list {
				e, err := s.Entries("@n")
				if err != nil || len(e) != 1 {
					t.Fatalf("%v, %v", e, err)
				}
				got += e[0].Value.(uint64)
			}
			t.Logf("%d of %d", got, want)
			most := int64(turns * runtime.NumCPU())
			if c.exact {
				most = 0
			}
			if off := int64(got - want); off < -most || off > most {
				t.Errorf("%d events are counted, of %d", got, want)
			}
			if err := errors.Join(h.Close(), h.Close()); err != nil {
				t.Error(err)
			}
			if err := list[0].TakeOver(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("of a closed handover: %v", err)
			}
		})
	}
}
