package action

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/borescope/borescope/mapx"
)

// Log is a stream of lines that a program prints. The kernel emits only the
// values; the reader formats them.
type Log struct {
	m     *Map
	lines []logLine
}

// logLine is one Printf: a format, and the types of its values.
type logLine struct {
	format string
	args   int
}

// logMax is the room for the values of a line, in bytes.
const logMax = 256

// NewLog returns a stream of lines over a ring buffer of size bytes (0:
// DefaultBuffer).
func NewLog(name string, size int) *Log {
	t := Type{Kind: KindTuple, Size: 8 + logMax, Fields: []Field{
		{Name: "line", Offset: 0, Type: u32},
		{Name: "pad", Offset: 4, Type: u32},
		{Name: "values", Offset: 8, Type: BytesType(logMax)},
	}}
	return &Log{m: &Map{Name: name, Kind: MapRing, Entries: size, Value: t, Pos: callerPos()}}
}

// Map is the IR's map.
func (l *Log) Map() *Map { return l.m }

// Printf prints a line, by fmt's verbs: numbers are int64 (uint64 for unsigned
// 64-bit values as their bits), text is string. A value may be text of at most
// 128 bytes; up to 8 values fit a line.
func (l *Log) Printf(c *Ctx, format string, args ...any) {
	if len(args) > 8 {
		c.errorf("printf %q: %d values, at most 8", format, len(args))
		return
	}
	slots := make([]Field, 0, len(args)+1)
	vals := make([]*Expr, 0, len(args)+1)
	for _, a := range args {
		t := Int64Type()
		if s, ok := a.(Str); ok {
			t = StringType(textSize(s.Expr()))
		}
		slots = append(slots, Field{Type: u64}, Field{Type: t})
		vals = append(vals, &Expr{Op: OpConst, Type: u64, Int: int64(t.Size)<<8 | int64(t.Kind)}, lift(a))
	}
	values := TupleType(append(slots, Field{Type: u64})...)
	if values.Size >= logMax {
		c.errorf("printf %q: values of %d bytes, at most %d", format, values.Size, logMax)
		return
	}
	rest := BytesType(logMax - values.Size)
	fields := append([]Field{{Type: u32}, {Type: u32}}, slots...)
	fields = append(fields, Field{Type: u64}, Field{Type: rest})
	event := TupleType(fields...)
	vals = append(vals, zeroOf(u64), zeroOf(rest))
	line := len(l.lines)
	l.lines = append(l.lines, logLine{format: format, args: len(args)})
	x := &Expr{Op: OpTuple, Type: event, Pos: callerPos(), Args: append([]*Expr{
		{Op: OpConst, Type: u32, Int: int64(line)}, {Op: OpConst, Type: u32, Int: int64(len(args))},
	}, vals...)}
	c.Do(&Stmt{Op: StmtEmit, Map: l.m, X: x})
}

// textSize is the size of a text value as far as it is known when a program is
// recorded.
func textSize(e *Expr) int {
	if e.Type.Kind == KindString {
		return min((e.Type.Size+7)/8*8, 128)
	}
	return DefaultString
}

// LogReader formats the lines of a Log. One goroutine reads at a time.
type LogReader struct {
	log *Log
	in  stream
	rec mapx.Record
}

// Open opens the stream. The caller closes the reader.
func (l *Log) Open(s Handles) (*LogReader, error) {
	in, err := openStream(s, l.m)
	if err != nil {
		return nil, fmt.Errorf("log %s: %w", l.m.Name, err)
	}
	return &LogReader{log: l, in: in}, nil
}

// Read waits for the next line, and returns how many were lost before it.
func (r *LogReader) Read(ctx context.Context) (line string, lost uint64, err error) {
	if err := r.in.ReadInto(ctx, &r.rec); err != nil {
		return "", 0, err
	}
	line, err = r.log.format(r.rec.Data)
	return line, r.rec.Lost, err
}

// format makes a line of an event.
func (l *Log) format(b []byte) (string, error) {
	le := binary.LittleEndian
	if len(b) < 8 || int(le.Uint32(b)) >= len(l.lines) {
		return "", fmt.Errorf("log event of %d bytes: %w", len(b), io.ErrUnexpectedEOF)
	}
	line := l.lines[le.Uint32(b)]
	b = b[8:]
	var args []any
	for range line.args {
		if len(b) < 16 {
			return "", io.ErrUnexpectedEOF
		}
		head := le.Uint64(b)
		size := int(head >> 8 & 0xffff)
		if size < 8 || 8+size > len(b) {
			return "", io.ErrUnexpectedEOF
		}
		if Kind(head&0xff) == KindString {
			args = append(args, Text(b[8:8+size]))
		} else {
			args = append(args, int64(le.Uint64(b[8:])))
		}
		b = b[8+size:]
	}
	return strings.TrimSuffix(fmt.Sprintf(line.format, args...), "\n"), nil
}

// Close ends the stream.
func (r *LogReader) Close() error { return r.in.Close() }
