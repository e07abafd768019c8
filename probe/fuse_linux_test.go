package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// fuseVar names the file that the test's child answers for.
const fuseVar = "PROBE_FUSE"

// TestFUSE: a program for whose file a process answers is probed by Unsafe alone.
func TestFUSE(t *testing.T) {
	if name := os.Getenv(fuseVar); name != "" {
		serveFUSE(t, 3, name)
		return
	}
	testenv.Need(t, testenv.Root, testenv.Guest, testenv.Mounts, testenv.Uprobes)
	if !testenv.OwnMounts(t) {
		return
	}
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	testenv.Need(t, testenv.Got("/dev/fuse", err))
	server := testenv.Command(t, "/proc/self/exe", "-test.run=^TestFUSE$")
	server.Env = append(os.Environ(), fuseVar+"="+probetest.TargetPath())
	server.ExtraFiles = []*os.File{dev}
	dir := t.TempDir()
	if err := unix.Mount("served", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev.Fd())); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	dev.Close()
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		server.Process.Kill()
		server.Wait()
	})
	path := filepath.Join(dir, "program")
	w := probetest.StartCommand(t, testenv.Command(t, path))
	for text, want := range map[string]uint64{
		"uprobe:" + path + ":add": probetest.Times, fmt.Sprintf("uprobe::add pid=%d", w.PID()): probetest.Times, "usdt:" + path + ":target:twice": 2 * probetest.Times,
	} {
		target := mustParse(t, text)
		if _, err := Resolve(nil, []Target{target}, nil); err == nil || !strings.Contains(err.Error(), "FUSE") {
			t.Errorf("%s: %v", text, err)
		}
		plan, err := Resolve(nil, []Target{target}, &Options{Unsafe: true})
		if err != nil {
			t.Fatal(err)
		}
		n := loadCounter(t, plan, probetest.Counting{Value: -1})
		// A plan that doesn't say which file it was made from.
		whose := plan.Files
		plan.Files = nil
		if l, err := plan.Attach(n.progs, nil); err == nil || !strings.Contains(err.Error(), "FUSE") {
			t.Errorf("%s attached: %v", text, err)
			l.Close()
		}
		plan.Files = whose
		l, err := plan.Attach(n.progs, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.Run()
		if got := n.read(t, 0).Count; got != want {
			t.Errorf("%s: counted %d, want %d", text, got, want)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// serveFUSE answers for a directory with one file, "program", which reads as the one
// of that name (include/uapi/linux/fuse.h), until nobody has it mounted.
func serveFUSE(t *testing.T, dev int, name string) {
	program, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const root, file = 1, 2
	o := binary.LittleEndian
	attr := func(node uint64) []byte { // struct fuse_attr
		b := make([]byte, 88)
		mode, size := uint32(unix.S_IFDIR|0o755), 0
		if node == file {
			mode, size = unix.S_IFREG|0o755, len(program)
		}
		o.PutUint64(b, node)
		o.PutUint64(b[8:], uint64(size))
		o.PutUint64(b[16:], uint64(size+511)/512)
		o.PutUint32(b[60:], mode)
		o.PutUint32(b[64:], 1)
		o.PutUint32(b[80:], 4096)
		return b
	}
	buf := make([]byte, 1<<20)
	for {
		n, err := unix.Read(dev, buf)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return // ENODEV: it was unmounted
		}
		req := buf[:n]
		op, unique, node, body := o.Uint32(req[4:]), o.Uint64(req[8:]), o.Uint64(req[16:]), req[40:]
		var out []byte
		failed := syscall.Errno(0)
		switch op {
		case 1: // LOOKUP
			if node != root || string(body[:len(body)-1]) != "program" {
				failed = unix.ENOENT
				break
			}
			out = make([]byte, 40)
			o.PutUint64(out, file)
			o.PutUint64(out[16:], 3600)
			o.PutUint64(out[24:], 3600)
			out = append(out, attr(file)...)
		case 2, 36, 42: // FORGET, INTERRUPT, BATCH_FORGET: not to be answered
			continue
		case 3: // GETATTR
			out = append(make([]byte, 16), attr(node)...)
			o.PutUint64(out, 3600)
		case 14, 27: // OPEN, OPENDIR
			out = make([]byte, 16)
		case 15: // READ
			from := min(o.Uint64(body[8:]), uint64(len(program)))
			to := min(from+uint64(o.Uint32(body[16:])), uint64(len(program)))
			out = program[from:to]
		case 17: // STATFS
			out = make([]byte, 80)
		case 18, 25, 29: // RELEASE, FLUSH, RELEASEDIR
		case 26: // INIT
			out = make([]byte, 64)
			o.PutUint32(out, 7)
			o.PutUint32(out[4:], 31)
			o.PutUint32(out[8:], o.Uint32(body[8:])) // max_readahead
			o.PutUint32(out[20:], 4096)              // max_write
		default:
			failed = unix.ENOSYS
		}
		head := make([]byte, 16, 16+len(out))
		o.PutUint32(head, uint32(16+len(out)))
		o.PutUint32(head[4:], uint32(-int32(failed)))
		o.PutUint64(head[8:], unique)
		if _, err := unix.Write(dev, append(head, out...)); err != nil && !errors.Is(err, unix.ENOENT) {
			return
		}
	}
}
