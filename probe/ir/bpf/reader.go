package bpf

import (
	"errors"
	"fmt"
	"os"
	"reflect"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/mapx"
)

var (
	errNoProgram = errors.New("no program")
	errNoPlan    = errors.New("no plan")
)

// sourceOf returns the source that handles read from, or an error if it cannot be read.
func sourceOf(h Reader) (source, error) {
	var src source
	// h may be a type that embeds a Loaded, and a nil pointer, if its user ignored an error.
	if v := reflect.ValueOf(h); v.IsValid() && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		src = h.source()
	}
	if src == (source{}) {
		return src, errors.New("neither a loaded program nor a recording")
	}
	if src.live != nil {
		return src, src.live.usable()
	}
	return src, nil
}

// usable returns an error if the program's maps cannot be used.
func (l *Loaded) usable() error {
	if l == nil {
		return errNoProgram
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("program %s: %w", l.prog.Name, os.ErrClosed)
	}
	return nil
}

// failed returns the error of an operation on the program's maps. It matches os.ErrClosed if
// they were closed meanwhile.
func (l *Loaded) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	if gone := l.usable(); gone != nil {
		err = gone
	}
	return fmt.Errorf("%s: %w", op, err)
}

// liveTable is a table of a loaded program, which may be closed meanwhile.
type liveTable[K comparable, V any] struct {
	in   mapx.Table[K, V]
	l    *Loaded
	name string
}

// Sizes returns the sizes of the kernel's keys and values, in bytes.
func (t *liveTable[K, V]) Sizes() (key, value int) {
	em := t.l.coll.Maps[t.name]
	if em.Type() == ebpf.ArrayOfMaps {
		em = t.l.coll.Maps[flipNames(t.name)[0]]
	}
	return int(em.KeySize()), int(em.ValueSize())
}

// Snapshot returns the current entries.
func (t *liveTable[K, V]) Snapshot() (mapx.Snapshot[K, V], error) {
	s, err := t.in.Snapshot()
	return s, t.l.failed("read "+t.name, err)
}

// ReadAndClear returns the entries and removes them.
func (t *liveTable[K, V]) ReadAndClear() (mapx.Snapshot[K, V], error) {
	s, err := t.in.ReadAndClear()
	return s, t.l.failed("read "+t.name, err)
}

// reserve gives a stream to one reader, until release. Another reader would take events away
// from it.
func (l *Loaded) reserve(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, open := l.readers[name]; open {
		return errors.New("the stream already has a reader")
	}
	if l.readers == nil {
		l.readers = map[string]Stream{}
	}
	l.readers[name] = nil
	return nil
}

// hold keeps a stream, for Close. It returns an error if the program was closed meanwhile.
func (l *Loaded) hold(name string, s Stream) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("program %s: %w", l.prog.Name, os.ErrClosed)
	}
	l.readers[name] = s
	return nil
}

func (l *Loaded) release(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.readers, name)
}

// liveStream is a stream of a loaded program.
type liveStream struct {
	Stream
	release func() // sync.OnceFunc
}

// Close ends the stream, which may then be opened again.
func (s *liveStream) Close() error {
	defer s.release()
	return s.Stream.Close()
}
