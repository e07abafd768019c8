package testenv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// FUSE is a file system that a process of the test serves.
type FUSE struct {
	// Dir is where it is mounted, Program the path of its file.
	Dir, Program string
	// Server is the process, In its standard input and Out its output, which begins as the
	// test's own does.
	Server *Cmd
	In     io.Writer
	Out    io.Reader
}

// serverOf is the variable with the name of the test that serves a file system.
const serverOf = "BORESCOPE_FUSE_SERVER"

// MountFUSE mounts a file system that belongs to user, and runs the test once more, in a process
// in which it calls serve with the descriptor of /dev/fuse and returns nil. Until the test ends,
// all this is there. The test needs Guest, Root and Mounts, and runs in OwnMounts.
func MountFUSE(t *testing.T, user int, serve func(dev int)) *FUSE {
	t.Helper()
	server := again(t, serverOf)
	if server == nil {
		serve(3)
		return nil
	}
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	Need(t, Got("/dev/fuse", err, "no such device"))
	// The server alone has it: what is asked of a file system fails when nobody has.
	defer dev.Close()
	server.ExtraFiles = []*os.File{dev}
	dir := t.TempDir()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=0,allow_other", dev.Fd(), user)
	if err := unix.Mount("served", dir, "fuse", 0, options); err != nil {
		t.Fatal(err)
	}
	in, out := Piped(t, server)
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		server.Process.Kill()
		server.Wait()
	})
	return &FUSE{dir, filepath.Join(dir, "program"), server, in, out}
}

// ServeFUSE answers for a file system with one file, "program", in its directory
// (include/uapi/linux/fuse.h), until nobody has it mounted. dev is the descriptor of
// /dev/fuse that it was mounted with. Tests with such file systems need Guest.
func ServeFUSE(dev int, program []byte) {
	ServeRudeFUSE(dev, program, func(FUSERequest) syscall.Errno { return 0 })
}

// FUSERequest is what a server is asked for.
type FUSERequest uint32

// The requests that files and directories are opened, described and read with.
const (
	FUSELookup  FUSERequest = 1
	FUSEGetattr FUSERequest = 3
	FUSEOpen    FUSERequest = 14
	FUSERead    FUSERequest = 15
)

// ServeRudeFUSE is ServeFUSE of a server that fails requests with what fail returns, unless
// that is 0.
func ServeRudeFUSE(dev int, program []byte, fail func(FUSERequest) syscall.Errno) {
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
		failed := fail(FUSERequest(op))
		if failed != 0 {
			op = 0
		}
		switch op {
		case 0: // it fails
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
