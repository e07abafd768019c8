// Package hostfs records the files of the host that a result was made from, along with the
// traced data, and returns them as a file system at replay: probe.NewEnv and
// symbol.Options.Root take it.
//
//	root, err := hostfs.Record(rec, "host", os.DirFS("/")) // files read from root are recorded
//
// and at replay
//
//	root, err := hostfs.Open(recorded, "host")
//
// It is separate from package recording because few programs keep files of the host.
package hostfs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/mapx/recording"
)

// Bounds of the memory of a tree of files that is read back. Text files are 5 to 20 times as
// large as when compressed.
const (
	maxTree       = 1 << 30
	treeExpansion = 32
	leastTree     = 32 << 20
	nodeCost      = 256 // of a file, or an entry of a listing, without its contents
)

// Dir returns the tree below a directory; that of "/" is this machine, for NewEnv and
// Options.Root. Unlike os.DirFS it opens only regular files and directories: a FIFO or a
// device, which other users may put in a file's place, is an error and does not block. A path
// below /proc/PID/root is looked up in that process's root, including its links.
func Dir(name string) fs.FS { return procfs.DirFS(name) }

// Record returns a view of fsys that records every file, link and directory listing read
// through it, as it was at the first time: the host files that a result was made from. Open
// returns them under that name. Files are read whole when they are opened; one that is
// larger than 64 MiB is an error.
//
// With a nil r it returns fsys.
func Record(r *recording.Recorder, name string, fsys fs.FS) (fs.FS, error) {
	if r == nil {
		return fsys, nil
	}
	w, err := r.Create(name + treeSuffix)
	if err != nil {
		return nil, err
	}
	return &treeRecorder{fsys: fsys, w: w, seen: map[string]bool{}}, nil
}

// treeSuffix ends the names of trees in a recording.
const treeSuffix = ".tree"

// treeRecorder writes the files that are read from a file system down, one after the other
// (FORMAT.md). The list has no end mark, so that nothing has to be closed.
type treeRecorder struct {
	fsys fs.FS

	mu   sync.Mutex // guards the fields below
	w    io.Writer
	seen map[string]bool // headers that were written
}

var (
	_ fs.ReadFileFS = (*treeRecorder)(nil)
	_ fs.ReadDirFS  = (*treeRecorder)(nil)
	_ fs.ReadLinkFS = (*treeRecorder)(nil)
)

const maxTreeFile = 64 << 20

// ReadFile reads a file whole and writes it down.
func (t *treeRecorder) ReadFile(name string) ([]byte, error) {
	f, err := t.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Not by its size: files of /proc have size 0.
	b, err := io.ReadAll(io.LimitReader(f, maxTreeFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxTreeFile {
		return nil, &fs.PathError{Op: "record", Path: name, Err: errors.New("larger than 64 MiB")}
	}
	return b, t.add(fmt.Sprintf("file %q ", name), fmt.Appendf(nil, "%d\n%s\n", len(b), b))
}

func (t *treeRecorder) Open(name string) (fs.File, error) {
	info, err := fs.Stat(t.fsys, name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		entries, err := t.ReadDir(name)
		if err != nil {
			return nil, err
		}
		return newMemFile(&memNode{name: path.Base(name), dir: true, entries: entries}), nil
	}
	b, err := t.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return newMemFile(&memNode{name: path.Base(name), data: b}), nil
}

// ReadDir lists a directory and writes down its entries' names.
func (t *treeRecorder) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(t.fsys, name)
	if err != nil {
		return nil, err
	}
	list := fmt.Appendf(nil, "%d\n", len(entries))
	for _, e := range entries {
		list = fmt.Appendf(list, "%c %q\n", modeChar(e.Type()), e.Name())
	}
	return entries, t.add(fmt.Sprintf("dir %q ", name), list)
}

func modeChar(m fs.FileMode) byte {
	switch {
	case m.IsDir():
		return 'd'
	case m&fs.ModeSymlink != 0:
		return 'l'
	}
	return '-'
}

// ReadLink reads a symbolic link and writes it down.
func (t *treeRecorder) ReadLink(name string) (string, error) {
	target, err := fs.ReadLink(t.fsys, name)
	if err != nil {
		return "", err
	}
	return target, t.add(fmt.Sprintf("link %q ", name), fmt.Appendf(nil, "%q\n", target))
}

// Lstat is that of the file system; it is not recorded.
func (t *treeRecorder) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(t.fsys, name) }

// add writes an entry down that was not written before: what it is of, and the rest.
func (t *treeRecorder) add(what string, rest []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen[what] {
		return nil
	}
	t.seen[what] = true
	_, err := t.w.Write(append([]byte(what), rest...))
	return err
}

// Open returns the tree of files that Record recorded under the name, read into memory.
// Files that were not read while recording do not exist in it. If the recording was cut
// off, the tree has the files before the cut. It takes at most 1 GiB of memory, and at most
// the larger of 32 MiB and 32 times its size in the recording; more is an error that wraps
// recording.ErrCorrupt.
func Open(r *recording.Recording, name string) (fs.FS, error) {
	f, err := r.Open(name + treeSuffix)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := treeReader{
		r: bufio.NewReaderSize(f, maxLine), tree: memFS{".": {name: ".", dir: true}},
		room: min(max(treeExpansion*f.Stored(), leastTree), maxTree),
	}
	for {
		switch err := t.next(); {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return t.tree, nil
		default:
			return nil, fmt.Errorf("recording %s: %w", name, err)
		}
	}
}

// memFS is a tree in memory, by path.
type memFS map[string]*memNode

type memNode struct {
	name    string
	dir     bool
	link    string
	data    []byte
	entries []fs.DirEntry
}

var _ fs.ReadLinkFS = memFS{}

// find follows symbolic links in every element of the path; one that leads outside the tree
// starts at its root, as in a chroot.
func (m memFS) find(op, name string, last bool) (*memNode, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	at, rest := ".", strings.Split(name, "/")
	for hops := 0; len(rest) > 0 && hops < 255; {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		if n := m[next]; n != nil && n.link != "" && (last || len(rest) > 0) {
			hops++
			target := n.link
			if path.IsAbs(target) {
				at = "."
			}
			target = strings.TrimPrefix(path.Join("/", at, target), "/")
			at = "."
			if target != "" {
				rest = append(strings.Split(target, "/"), rest...)
			}
			continue
		}
		at = next
	}
	if n := m[at]; n != nil && len(rest) == 0 {
		return n, nil
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

func (m memFS) Open(name string) (fs.File, error) {
	n, err := m.find("open", name, true)
	if err != nil {
		return nil, err
	}
	return newMemFile(n), nil
}

// ReadLink returns the target of a symbolic link.
func (m memFS) ReadLink(name string) (string, error) {
	n, err := m.find("readlink", name, false)
	if err == nil && n.link == "" {
		err = &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		return "", err
	}
	return n.link, nil
}

// Lstat describes a file without following a link.
func (m memFS) Lstat(name string) (fs.FileInfo, error) { return m.find("lstat", name, false) }

// A memNode is its own FileInfo and DirEntry.

func (n *memNode) Name() string               { return n.name }
func (n *memNode) Size() int64                { return int64(len(n.data)) }
func (n *memNode) IsDir() bool                { return n.dir }
func (n *memNode) ModTime() time.Time         { return time.Time{} }
func (n *memNode) Sys() any                   { return nil }
func (n *memNode) Type() fs.FileMode          { return n.Mode().Type() }
func (n *memNode) Info() (fs.FileInfo, error) { return n, nil }

func (n *memNode) Mode() fs.FileMode {
	switch {
	case n.dir:
		return fs.ModeDir | 0o555
	case n.link != "":
		return fs.ModeSymlink | 0o777
	}
	return 0o444
}

// memFile is an open memNode. It is an io.ReaderAt and io.Seeker too.
type memFile struct {
	*bytes.Reader
	node    *memNode
	entries []fs.DirEntry
}

func newMemFile(n *memNode) *memFile {
	return &memFile{Reader: bytes.NewReader(n.data), node: n, entries: n.entries}
}

func (f *memFile) Stat() (fs.FileInfo, error) { return f.node, nil }

func (f *memFile) Close() error { return nil }

func (f *memFile) Read(p []byte) (int, error) {
	if f.node.dir {
		return 0, &fs.PathError{Op: "read", Path: f.node.name, Err: errors.New("is a directory")}
	}
	return f.Reader.Read(p)
}

// ReadDir returns the next n entries of a directory, all if n is not positive.
func (f *memFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(f.entries)
	} else if len(f.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(f.entries))
	out := f.entries[:n]
	f.entries = f.entries[n:]
	return out, nil
}
