package procfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
)

// TestAgain: a call is made again while it is interrupted, and given up in the end.
func TestAgain(t *testing.T) {
	for _, c := range []struct{ interrupted, calls int }{{0, 1}, {3, 4}, {1 << 30, interruptions}} {
		calls := 0
		err := again(func() error {
			if calls++; calls <= c.interrupted {
				return unix.EINTR
			}
			return unix.ENOENT
		})
		want := unix.ENOENT
		if c.interrupted > calls-1 {
			want = unix.EINTR
		}
		if calls != c.calls || !errors.Is(err, want) {
			t.Errorf("%d times interrupted: %d calls, want %d, %v", c.interrupted, calls, c.calls, err)
		}
	}
}

// TestInterruptedServer: a server of root's may say EINTR at each signal that Go's runtime sends
// its threads: opening, looking and reading failed then. One that always says it is not asked for
// ever: package os asks again without an end, which takes a processor for as long as the service
// runs.
func TestInterruptedServer(t *testing.T) {
	const size = 8 << 20
	testenv.Need(t, testenv.Guest, testenv.Root, testenv.Mounts)
	if !testenv.OwnMounts(t) {
		return
	}
	served := testenv.MountFUSE(t, 0, func(dev int) {
		var always atomic.Bool
		go func() {
			for b := make([]byte, 1); ; {
				n, err := os.Stdin.Read(b)
				if err != nil {
					return
				}
				always.Store(n == 1)
				fmt.Println("now")
			}
		}()
		asked := make(map[testenv.FUSERequest]int)
		testenv.ServeRudeFUSE(dev, make([]byte, size), func(r testenv.FUSERequest) syscall.Errno {
			switch r {
			case testenv.FUSERead: // the kernel, too, reads pages, and says EIO of those that failed (7.2)
				if always.Load() {
					return unix.EINTR
				}
			case testenv.FUSELookup, testenv.FUSEGetattr, testenv.FUSEOpen:
				if asked[r]++; always.Load() || asked[r]%3 != 0 {
					return unix.EINTR
				}
			}
			return 0
		})
	})
	if served == nil {
		return
	}
	f, err := OpenInRoot(os.Getpid(), served.Program, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || st.Size() != size || !st.Mode().IsRegular() {
		t.Errorf("%v, %v", st, err)
	}
	b := make([]byte, 4096)
	read := func(off int64) error {
		_, err := f.(io.ReaderAt).ReadAt(b, off)
		return err
	}
	for off := int64(0); off < size; off += 1 << 20 {
		if err := read(off); err != nil {
			t.Errorf("at %d: %v", off, err)
		}
	}
	if n, err := f.(io.ReaderAt).ReadAt(b, size-1); n != 1 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
	if plain, err := Open(served.Program); err != nil {
		t.Errorf("by its path: %v", err)
	} else {
		plain.Close()
	}
	if _, err := OpenInRoot(os.Getpid(), served.Dir+"/none", false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}

	if _, err := served.In.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	for said := bufio.NewScanner(served.Out); said.Text() != "now"; {
		if !said.Scan() {
			t.Fatal("the server ends:", said.Err())
		}
	}
	if err := unix.Fadvise(int(f.(*remoteFile).Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := read(3<<20 + 512<<10); !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EIO) {
		t.Errorf("always interrupted: %v", err)
	}
	if took := time.Since(start); took > patience/2 {
		t.Errorf("it took %v", took)
	}
	questions.mu.Lock()
	defer questions.mu.Unlock()
	if questions.running != 0 {
		t.Errorf("%d questions go on", questions.running)
	}
}
