package symbol

import "io"

// readAhead reads from another reader in its own goroutine, up to two buffers ahead of its
// caller: the symbols that the kernel has printed are parsed while it prints the next ones.
// stop ends it.
type readAhead struct {
	free chan []byte
	full chan aheadBuf
	cur  aheadBuf
	rest []byte // of cur, not read yet
}

// aheadBuf is a buffer with data in b, and the error that ended it.
type aheadBuf struct {
	b   []byte
	err error
}

// aheadSize is the size of a buffer: the kernel fills a page at a call, and the
// fewer buffers change hands the better, but the last one is parsed alone.
const aheadSize = 64 << 10

func newReadAhead(r io.Reader) *readAhead {
	const buffers = 3
	a := &readAhead{free: make(chan []byte, buffers), full: make(chan aheadBuf, buffers)}
	for range buffers {
		a.free <- make([]byte, aheadSize)
	}
	go a.run(r)
	return a
}

// run fills buffers until an error or stop.
func (a *readAhead) run(r io.Reader) {
	defer close(a.full)
	for b := range a.free {
		n, err := 0, error(nil)
		for n < len(b) && err == nil {
			var m int
			m, err = r.Read(b[n:])
			n += m
		}
		a.full <- aheadBuf{b[:n], err}
		if err != nil {
			return
		}
	}
}

// Read implements io.Reader.
func (a *readAhead) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.cur.err != nil {
			return 0, a.cur.err
		}
		if a.cur.b != nil {
			a.free <- a.cur.b[:cap(a.cur.b)]
		}
		a.cur = <-a.full
		a.rest = a.cur.b
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// stop waits for the goroutine to end. No read may follow.
func (a *readAhead) stop() {
	close(a.free)
	for range a.full {
	}
}
