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

// rudeVar makes the test binary a server that is interrupted.
const rudeVar = "PROCFS_RUDE"

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
	if dir := os.Getenv(rudeVar); dir != "" {
		const dev = 3
		if err := unix.Mount("root's", dir, "fuse", 0,
			fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
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
		fmt.Println("up")
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
		return
	}
	testenv.Need(t, testenv.Guest, testenv.Root, testenv.Mounts)
	if !testenv.OwnMounts(t) {
		return
	}
	dir := t.TempDir()
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, os.Args[0], "-test.run=^TestInterruptedServer$")
	cmd.Env = append(os.Environ(), rudeVar+"="+dir)
	cmd.ExtraFiles = []*os.File{dev}
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
	dev.Close()
	said := bufio.NewScanner(out)
	if !said.Scan() || said.Text() != "up" {
		t.Fatal(said.Text())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	f, err := OpenInRoot(os.Getpid(), dir+"/program", false)
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
	if plain, err := Open(dir + "/program"); err != nil {
		t.Errorf("by its path: %v", err)
	} else {
		plain.Close()
	}
	if _, err := OpenInRoot(os.Getpid(), dir+"/none", false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}

	in.Write([]byte("x"))
	if !said.Scan() {
		t.Fatal(said.Err())
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
