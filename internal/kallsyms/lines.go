// Package kallsyms reads the kernel's own symbols, from /proc/kallsyms, and the functions that
// tracefs lists as traceable.
package kallsyms

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/borescope/borescope/internal/feature"
)

// maxBytes bounds the bytes that are read: 2 million symbols of 100 bytes.
const maxBytes = 200 << 20

// maxLine is far above KSYM_NAME_LEN (512) and MODULE_NAME_LEN (56).
const maxLine = 4096

// Open opens proc/kallsyms below a root. The error is a *feature.UnsupportedError. The caller
// closes the file.
func Open(root fs.FS) (fs.File, error) {
	f, err := root.Open("proc/kallsyms")
	if err != nil {
		hint := "the kernel was built without CONFIG_KALLSYMS, or /proc is not mounted"
		if errors.Is(err, fs.ErrPermission) {
			hint = "/proc/kallsyms may not be read"
		}
		return nil, &feature.UnsupportedError{Feature: "kallsyms", Hint: hint, Err: err}
	}
	return f, nil
}

// Lines reads lines of "ADDRESS TYPE NAME[\t[MODULE]]": proc_kallsyms(5),
// kernel/kallsyms.c s_show. It allocates nothing for a line.
type Lines struct {
	// Address is 0 for every symbol if the kernel hides addresses (kernel.kptr_restrict).
	Address uint64
	Type    byte // nm's letter

	// These are the parts of the line, as offsets into buf, because slices would cost write
	// barriers.
	name, nameEnd, module, moduleEnd int

	r     io.Reader
	buf   []byte
	from  int // start of the unread part of buf
	to    int
	total int
	n     int // lines
	eof   bool
	err   error

	high      uint64 // the first 8 digits of the last address, in ASCII
	highValue uint64 // and their value
	highKnown bool
}

// NewLines returns Lines that read from r.
func NewLines(r io.Reader) *Lines { return &Lines{r: r, buf: make([]byte, 256<<10)} }

// Next moves to the next line that is not empty. It returns false at the end and after an
// error.
func (l *Lines) Next() bool {
	for l.err == nil {
		rest := l.buf[l.from:l.to]
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			if !l.eof {
				l.fill()
				continue
			}
			if end = len(rest); end == 0 {
				return false
			}
			l.to++ // as if there were one
		}
		start := l.from
		l.from += end + 1
		l.n++
		switch {
		case end == 0:
			continue
		case end >= maxLine:
			l.err = l.tooLong(l.n)
			return false
		}
		l.parse(start, start+end)
		return l.err == nil
	}
	return false
}

// fill reads more data after an incomplete line.
func (l *Lines) fill() {
	l.to = copy(l.buf, l.buf[l.from:l.to])
	l.from = 0
	if l.to >= maxLine {
		l.err = l.tooLong(l.n + 1)
		return
	}
	// One byte remains free for the newline that the last line may lack.
	n, err := l.r.Read(l.buf[l.to : len(l.buf)-1])
	l.to += n
	l.total += n
	switch {
	case l.total > maxBytes:
		l.err = fmt.Errorf("kallsyms: more than %d MiB", maxBytes>>20)
	case err == io.EOF:
		l.eof = true
	case err != nil:
		l.err = fmt.Errorf("kallsyms:%d: %w", l.n+1, err)
	}
}

func (l *Lines) tooLong(line int) error { return fmt.Errorf("kallsyms:%d: line is too long", line) }

// Name returns the symbol's name, valid until the next call of Next.
func (l *Lines) Name() []byte { return l.buf[l.name:l.nameEnd] }

// Module returns the symbol's module, valid until the next call of Next. It is empty for the
// kernel itself.
func (l *Lines) Module() []byte { return l.buf[l.module:l.moduleEnd] }

// Err returns the error that stopped Next, nil at the end.
func (l *Lines) Err() error { return l.err }

// Line returns the number of lines read so far.
func (l *Lines) Line() int { return l.n }

// hexDigit maps a character to its value, 0xff if it is not a hexadecimal digit.
var hexDigit = func() (t [256]uint8) {
	for i := range t {
		t[i] = 0xff
	}
	for i := range 10 {
		t['0'+i] = uint8(i)
	}
	for i := range 6 {
		t['a'+i], t['A'+i] = uint8(10+i), uint8(10+i)
	}
	return t
}()

// Hex parses the hexadecimal digits at the start of b. n is their number, or 17 if they do not
// fit in v.
func Hex(b []byte) (v uint64, n int) { return hex(b, 0, 0) }

// hex continues after the first n digits, which have the value v.
func hex(b []byte, v uint64, n int) (uint64, int) {
	for ; n < len(b) && n < 17; n++ {
		d := hexDigit[b[n]]
		if d == 0xff {
			break
		}
		v = v<<4 | uint64(d)
	}
	return v, n
}

// parse splits the line buf[start:end].
func (l *Lines) parse(start, end int) {
	line := l.buf[start:end]
	var v uint64
	i := 0
	if len(line) > 16 && binary.LittleEndian.Uint64(line) == l.high && l.highKnown {
		i, v = 8, l.highValue // the upper half is nearly always that of the line before
	}
	v, i = hex(line, v, i)
	if i == 16 {
		l.high, l.highValue, l.highKnown = binary.LittleEndian.Uint64(line), v>>32, true
	}
	if i == 0 || i > 16 || len(line) < i+4 || line[i] != ' ' || line[i+2] != ' ' {
		l.err = fmt.Errorf("kallsyms:%d: bad line %.80q: want ADDRESS TYPE NAME", l.n, line)
		return
	}
	l.Address, l.Type = v, line[i+1]
	l.name, l.nameEnd, l.module, l.moduleEnd = start+i+3, end, 0, 0
	if line[len(line)-1] == ']' { // a module is the last word, after a tab
		if t := bytes.IndexByte(line[i+3:], '\t'); t >= 0 {
			l.nameEnd = l.name + t
			l.module, l.moduleEnd = min(l.nameEnd+len("\t["), end-1), end-1
		}
	}
	if l.nameEnd == l.name {
		l.err = fmt.Errorf("kallsyms:%d: bad line %.80q: no name", l.n, line)
	}
}
