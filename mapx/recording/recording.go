package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/procfs"
)

// Recording is a recording that is read: its handles have the interfaces of the live ones
// that the tool had. It is safe for concurrent use; the types of its handles state theirs.
type Recording struct {
	fsys fs.FS
	meta Meta
	done chan struct{} // closed by Close

	mu     sync.Mutex
	open   []io.Closer
	pace   *pacer
	closed bool
}

// openRegular opens a file of a recording, which may be anybody's: a FIFO in it would wait for
// its writer, and a link to /proc/kmsg for the kernel's next message.
func openRegular(fsys fs.FS, name string) (fs.File, error) {
	if st, err := fs.Stat(fsys, name); err != nil {
		return nil, err
	} else if !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: &procfs.NotRegularError{Mode: st.Mode()}}
	}
	f, err := fsys.Open(name)
	if file, ok := f.(*os.File); ok && err == nil {
		if err := procfs.CheckServed(int(file.Fd()), os.Getpid()); err != nil {
			f.Close()
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
	return f, err
}

// Open opens a recording: the directory that Create made, as os.DirFS, an embed.FS, or any
// fs.FS. It reads nothing but the manifest. The caller must close it after all its handles.
//
// A recording of any released format version opens. For a later version the error states
// that; for anything else it wraps ErrCorrupt.
func Open(fsys fs.FS) (*Recording, error) {
	if fsys == nil {
		return nil, errors.New("open recording: no files")
	}
	f, err := openRegular(fsys, manifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open recording: want a directory that Create made, with its %s: %w",
			manifestName, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	defer f.Close()
	limited := &io.LimitedReader{R: f, N: maxManifest + 1}
	b := bufio.NewReader(limited)
	line, err := readLine(b)
	if err == nil {
		err = checkVersion(line, "recording")
	}
	r := &Recording{fsys: fsys, done: make(chan struct{})}
	if err == nil {
		err = readMeta(b, &r.meta)
	}
	if err != nil && limited.N == 0 {
		err = fmt.Errorf("more than %d bytes: %w", maxManifest, ErrCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("open recording: manifest: %w", err)
	}
	return r, nil
}

// These bound a manifest, in bytes, and each of its lists: a process has fewer arguments than
// that, and a machine fewer CPUs.
const maxManifest, maxList = 8 << 20, 1 << 18

// readMeta decodes a manifest without its first line. Lists are decoded when their length is
// known: an element takes up to ten times as much memory as in the file.
func readMeta(r io.Reader, m *Meta) error {
	type plain Meta
	var lists struct {
		*plain
		Args     json.RawMessage `json:"args"`
		Online   json.RawMessage `json:"online"`
		Possible json.RawMessage `json:"possible"`
	}
	lists.plain = (*plain)(m)
	if err := json.NewDecoder(r).Decode(&lists); err != nil {
		return err
	}
	for _, l := range []struct {
		name string
		raw  json.RawMessage
		list any
	}{
		{"args", lists.Args, &m.Args},
		{"online", lists.Online, &m.Online},
		{"possible", lists.Possible, &m.Possible},
	} {
		if n := bytes.Count(l.raw, []byte(",")); n > maxList {
			return fmt.Errorf("%s of %d elements, more than %d: %w", l.name, n, maxList, ErrCorrupt)
		}
		if len(l.raw) == 0 {
			continue
		}
		if err := json.Unmarshal(l.raw, l.list); err != nil {
			return err
		}
	}
	return nil
}

// Meta returns the description of the recording's origin.
func (r *Recording) Meta() Meta { return r.meta }

// Complete reports whether the recorder was closed; if not, the last moments
// may be missing, and handles may end with io.ErrUnexpectedEOF.
func (r *Recording) Complete() bool { return !r.meta.End.IsZero() }

// Streams returns the names of the recorded streams, sorted.
func (r *Recording) Streams() ([]string, error) { return r.list(".stream") }

// Tables returns the names of the recorded tables, sorted.
func (r *Recording) Tables() ([]string, error) { return r.list(".table") }

// Files returns the names of the named files, sorted.
func (r *Recording) Files() ([]string, error) { return r.list(".file") }

func (r *Recording) list(ext string) ([]string, error) {
	entries, err := fs.ReadDir(r.fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("list recording: %w", err)
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ext); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// openFile opens a file that Close will close.
func (r *Recording) openFile(name, ext string) (fs.File, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	f, err := openRegular(r.fsys, name+ext)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, r.noFile(name, ext)
	}
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	r.mu.Lock()
	r.open = append(r.open, f)
	r.mu.Unlock()
	return f, nil
}

// noFile returns the error for a name that was not recorded, with the names that were.
func (r *Recording) noFile(name, ext string) error {
	what := strings.TrimPrefix(ext, ".")
	names, err := r.list(ext)
	switch {
	case err != nil:
		return err
	case len(names) == 0:
		return notexist.Errorf("recording: no %s %q; it has no %s at all", what, name, what)
	}
	return notexist.Errorf("recording: no %s %q; it has %s", what, name, strings.Join(names, ", "))
}

// Pace sets the speed of the handles that are opened from now on: streams without their own
// options, tables and dumps, all by one clock. Without it, and with a Speed of 0, all data is
// available immediately.
//
// A table's snapshot waits until it is due: at Speed 1, as long after the first read of any
// handle (or after Begin) as it was taken after the recording's start. Close of the recording
// ends all waits, with os.ErrClosed.
func (r *Recording) Pace(opts ReplayOptions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pace = newPacer(&opts, r.done)
}

// pacer returns the pacer that Pace set.
func (r *Recording) pacer() *pacer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pace
}

// Stream returns the replay of a recorded stream. opts may be nil; then its speed is that
// of Pace. The Recording closes it if the caller has not.
func (r *Recording) Stream(name string, opts *ReplayOptions) (*Replay, error) {
	f, err := r.openFile(name, ".stream")
	if err != nil {
		return nil, err
	}
	pace := r.pacer()
	if opts != nil {
		pace = newPacer(opts, r.done)
	}
	return newReplay(name, f, f, pace)
}

// Open opens a named file, as Recorder.Create wrote it. The Recording closes it if the
// caller has not.
func (r *Recording) Open(name string) (*File, error) {
	f, err := r.openFile(name, ".file")
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	var header struct{}
	in, err := newChunkReader(name, "file", f, &header)
	if err != nil {
		return nil, err
	}
	return &File{in: in, closer: f, stored: st.Size()}, nil
}

// Close closes what the recording's handles have open. It is idempotent.
func (r *Recording) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		close(r.done)
	}
	var errs []error
	for _, c := range r.open {
		if err := c.Close(); !errors.Is(err, fs.ErrClosed) {
			errs = append(errs, err)
		}
	}
	r.open = nil
	return errors.Join(errs...)
}
