package script_test

import (
	"os"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script"
)

// TestPairs: a kprobe and a kretprobe of the same functions count alike as one program and as two: each
// call at its entry and at its return, with the arguments at the one and the value at the other.
func TestPairs(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Kprobes)
	for _, c := range []struct {
		name, text string
		work       func(t *testing.T)
		want       map[string]uint64
		apart      bool
	}{
		{
			"one function", `kprobe:vfs_read /pid == $1 && arg2 == 70003/ { @entries = count(); @[tid] = 1; }
				kretprobe:vfs_read /@[tid]/ { @returns = count(); if (retval == 70003) { @whole = count(); } delete(@, tid); }`,
			func(t *testing.T) { readZeros(t, 23, 70003) },
			map[string]uint64{"@entries": 23, "@returns": 23, "@whole": 23},
			false,
		},
		{
			"return first", `kretprobe:vfs_read /pid == $1 && retval == 70003/ { @returns = count(); }
				kprobe:vfs_write { @other = count(); }
				kprobe:vfs_read { if (pid != $1 || arg2 != 70003) { return; } @entries = count(); }`,
			func(t *testing.T) { readZeros(t, 23, 70003) },
			map[string]uint64{"@entries": 23, "@returns": 23},
			false,
		},
		{ // some call others, but on old kernels
			"functions", `kprobe:vfs_*stat* /pid == $1/ { @entries = count(); }
				kretprobe:vfs_*stat* /pid == $1/ { @returns = count(); }`,
			func(t *testing.T) {
				var st unix.Stat_t
				for range 23 {
					if err := unix.Fstatat(unix.AT_FDCWD, "/", &st, 0); err != nil {
						t.Fatal(err)
					}
				}
			}, nil, false,
		},
		{ // more than a kernel has room for whose programs see the returns of a few
			"calls at once", `kprobe:vfs_read /pid == $1 && arg2 == 7/ { @entries = count(); @[tid] = 1; }
				kretprobe:vfs_read /@[tid]/ { @returned[tid] = 1; }`,
			func(t *testing.T) { waitForReads(t, 64) },
			map[string]uint64{"@entries": 64},
			false,
		},
		{
			"kernel stack", `kprobe:vfs_read /pid == $1 && arg2 == 70003/ { @entries = count(); }
				kretprobe:vfs_read /pid == $1 && retval == 70003/ { @returns[kstack] = count(); }`,
			func(t *testing.T) { readZeros(t, 23, 70003) },
			map[string]uint64{"@entries": 23, "@returns": 23},
			true,
		},
	} {
		for _, apart := range []bool{false, true} {
			t.Run(c.name+" "+strconv.FormatBool(apart), func(t *testing.T) {
				p := script.MustCompile(t, c.text, &script.Options{
					Params: []string{strconv.Itoa(os.Getpid())}, IncludeSelf: true, Apart: apart,
				})
				sessions := 0
				for i := range p.Plan().Programs {
					if g := &p.Plan().Programs[i]; g.EntryReturn() {
						sessions++
					}
				}
				want := 0
				if !apart && !c.apart && script.PairsSessions() {
					want = 1
				}
				if sessions != want {
					t.Errorf("%d sessions, want %d:\n%s", sessions, want, p.Plan())
				}
				s, err := script.Attach(t.Context(), p, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				c.work(t)
				if c.want == nil {
					entries, err1 := s.Entries("@entries")
					returns, err2 := s.Entries("@returns")
					if err1 != nil || err2 != nil || len(entries) != 1 || !reflect.DeepEqual(entries, returns) {
						t.Errorf("%v, %v; %v, %v", entries, err1, returns, err2)
					} else if n := entries[0].Value.(uint64); n == 0 || n%23 != 0 {
						t.Errorf("%d calls, want 23 of each function", n)
					}
				}
				for name, want := range c.want {
					list, err := s.Entries(name)
					if err != nil || len(list) != 1 || list[0].Value != want {
						t.Errorf("%s is %v, %v; want %d", name, list, err, want)
					}
				}
			})
		}
	}
}

// readZeros reads some bytes a number of times.
func readZeros(t *testing.T, times, size int) {
	t.Helper()
	f, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, size)
	for range times {
		if n, err := unix.Read(int(f.Fd()), buf); n != size {
			t.Fatal(n, err)
		}
	}
}

// waitForReads has threads wait in a read of 7 bytes at a time, and returns when all have returned.
func waitForReads(t *testing.T, threads int) {
	t.Helper()
	var wg sync.WaitGroup
	var ends []*os.File
	for range threads {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, w)
		fd, err := unix.Dup(int(r.Fd())) // a read that blocks its thread
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		if err := unix.SetNonblock(fd, false); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			unix.Read(fd, make([]byte, 7))
			unix.Close(fd)
		})
	}
	time.Sleep(time.Second)
	for _, w := range ends {
		w.Close()
	}
	wg.Wait()
}
