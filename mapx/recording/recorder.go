package recording

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/borescope/borescope/internal/compress"
	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/mapx"
)

// Meta describes the origin of a recording. Create fills in the empty fields that it can
// find out.
type Meta struct {
	// Tool is the program that recorded, and Args its arguments.
	Tool string   `json:"tool,omitempty"`
	Args []string `json:"args,omitempty"`
	// Kernel is the release, as uname -r prints it.
	Kernel string `json:"kernel,omitempty"`
	// Arch is in Go's spelling: amd64.
	Arch string `json:"arch,omitempty"`
	// Online and Possible are the CPUs of the machine.
	Online   []int `json:"online,omitempty"`
	Possible []int `json:"possible,omitempty"`
	// Start and End are the times of Create and Close. A recording
	// without End was not closed: its last moments may be missing.
	Start time.Time `json:"start"`
	End   time.Time `json:"end,omitzero"`
	// Data is any data that the tool needs at replay.
	Data json.RawMessage `json:"data,omitempty"`
}

// Recorder writes a recording: a directory with a manifest and a file for each
// stream, table and named file. FORMAT.md describes it. A Recorder is safe for
// concurrent use; on a nil Recorder Stream and RecordTable return their argument
// and Close does nothing, so that a tool needs no second path.
//
// An error of writing, of a full disk for instance, is returned by the read whose record or
// snapshot could not be written, by every read after it, and by Close.
type Recorder struct {
	dir   *os.Root
	start time.Time
	enc   *compress.Encoder

	mu     sync.Mutex // guards the fields below
	meta   Meta
	names  map[string]bool
	open   []io.Closer
	closed bool
	err    error
}

const manifestName = "manifest"

// Create begins a recording in dir, which must be empty and is made if needed. meta may be
// nil. The caller must close the Recorder; until then the recording is readable but is
// marked as cut off.
//
// Only the user can read it, because it has names and addresses of all users: the directory
// is made with mode 0700, and the files with 0600. Existing files are never written to, so
// that links in another user's directory have no effect.
func Create(dir string, meta *Meta) (*Recorder, error) {
	enc, err := compress.NewEncoder()
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	r := &Recorder{dir: root, start: time.Now(), enc: enc, names: map[string]bool{}}
	if meta != nil {
		r.meta = *meta
	}
	r.meta.fill(r.start)
	if err := r.begin(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return r, nil
}

// begin writes the first manifest into the directory, which must be empty.
func (r *Recorder) begin() error {
	entries, err := fs.ReadDir(r.dir.FS(), ".")
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("record: directory %s is not empty: %w", r.dir.Name(), fs.ErrExist)
	}
	return r.writeManifest()
}

// fill sets the fields that the caller left empty.
func (m *Meta) fill(start time.Time) {
	m.Start, m.End = start, time.Time{}
	if m.Arch == "" {
		m.Arch = runtime.GOARCH
	}
	if m.Kernel == "" {
		b, _ := os.ReadFile("/proc/sys/kernel/osrelease")
		m.Kernel = strings.TrimSpace(string(b))
	}
	if m.Online == nil {
		m.Online, _ = cpus.Online(nil)
	}
	if m.Possible == nil {
		m.Possible, _ = cpus.Possible(nil)
	}
}

// writeManifest replaces the manifest as a whole.
func (r *Recorder) writeManifest() error {
	b, err := json.MarshalIndent(&r.meta, "", "  ")
	if err != nil {
		return fmt.Errorf("record: manifest: %w", err)
	}
	b = append(fmt.Appendf(nil, "borescope recording %d\n", formatVersion), append(b, '\n')...)
	if len(b) > maxManifest {
		return fmt.Errorf("record: manifest of %d bytes, more than %d", len(b), maxManifest)
	}
	const next = manifestName + ".new"
	f, err := r.newFile(next)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	_, err = f.Write(b)
	if err = cmp.Or(err, f.Close()); err == nil {
		err = r.dir.Rename(next, manifestName)
	}
	if err != nil {
		_ = r.dir.Remove(next) // half a manifest is useless
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// newFile makes a file of the recording, which must not be there.
func (r *Recorder) newFile(name string) (*os.File, error) {
	return r.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// SetData replaces Meta.Data, which Close writes, by data that a tool has only at the end.
func (r *Recorder) SetData(data json.RawMessage) {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.meta.Data = data
	r.mu.Unlock()
}

// create makes a file of the recording and registers its closer.
func (r *Recorder) create(name, ext string, open func(f *os.File) (io.Closer, error)) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	file := name + ext
	switch {
	case r.closed:
		return fmt.Errorf("record %s: %w", file, os.ErrClosed)
	case r.names[file]:
		return fmt.Errorf("record %s: recorded already: %w", file, fs.ErrExist)
	}
	f, err := r.newFile(file)
	if err != nil {
		return r.fail(fmt.Errorf("record: %w", err))
	}
	c, err := open(f)
	if err != nil {
		f.Close()
		return r.fail(err)
	}
	r.names[file] = true
	r.open = append(r.open, c)
	return nil
}

func (r *Recorder) fail(err error) error {
	if r.err == nil {
		r.err = err
	}
	return err
}

// checkName restricts names to those that every file system permits.
func checkName(name string) error {
	ok := len(name) > 0 && len(name) <= 100 && name[0] != '.' && name[0] != '-'
	for _, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c == '.' || c == '-' || c == '_')
	}
	if !ok {
		return fmt.Errorf("name %q: want 1 to 100 letters, digits, '_', '-' and '.'", name)
	}
	return nil
}

// Stream returns a Source that passes on the records of src and records them under the
// name. If the stream can't be created the Source returns that error instead of records,
// and so does Close.
func (r *Recorder) Stream(name string, src mapx.Source) mapx.StatsSource {
	if r == nil {
		if s, ok := src.(mapx.StatsSource); ok {
			return s
		}
		return &uncounted{Source: src}
	}
	var s *StreamRecorder
	err := r.create(name, ".stream", func(f *os.File) (io.Closer, error) {
		var err error
		if s, err = newStreamRecorder(name, src, f, r.enc, r.start); err == nil {
			s.file = f
		}
		return s, err
	})
	if err != nil {
		return failed{err}
	}
	return s
}

// Create returns a writer for a named file of the recording: a symbol recording, a log, or
// any data that the tool needs at replay. It is compressed in chunks of 256 KiB; Close of
// the Recorder closes it if the caller has not.
func (r *Recorder) Create(name string) (io.WriteCloser, error) {
	var w *fileWriter
	err := r.create(name, ".file", func(f *os.File) (io.Closer, error) {
		out, err := newChunkWriter(name, "file", f, r.enc, struct{}{})
		w = &fileWriter{file: f, out: out}
		return w, err
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Flush writes the records that streams have read so far. Tables and closed files are
// always written.
func (r *Recorder) Flush() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, c := range r.open {
		if s, ok := c.(*StreamRecorder); ok {
			errs = append(errs, s.Flush())
		}
	}
	return errors.Join(errs...)
}

// Close writes the rest, closes all files and completes the manifest. It returns the first
// error of all writing. The recorded sources and tables are borrowed and not closed; close
// them afterwards, so that their last counts are in the recording. Close may be called more
// than once.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.err
	}
	r.closed = true
	defer r.dir.Close() // nothing is written through it
	for _, c := range r.open {
		if err := c.Close(); err != nil {
			_ = r.fail(err)
		}
	}
	if r.err == nil {
		r.meta.End = r.start.Add(time.Since(r.start))
		if err := r.writeManifest(); err != nil {
			return r.fail(err)
		}
	}
	return r.err
}
