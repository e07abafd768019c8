package action

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
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
// 64-bit values as their bits), text is string, bytes are []byte, or what they
// mean: netip.Addr (IPv4, IPv6), net.HardwareAddr (MAC), []uint64 (stacks). Text
// is cut to 128 bytes; up to 8 values of 256 bytes together fit a line.
func (l *Log) Printf(c *Ctx, format string, args ...any) {
	if len(args) > 8 {
		c.errorf("printf %q: %d values, at most 8", format, len(args))
		return
	}
	slots := make([]Field, 0, len(args)+1)
	vals := make([]*Expr, 0, len(args)+1)
	for _, a := range args {
		x := lift(a)
		t := printedType(a, x)
		if _, text := a.(Str); text && x.Op != OpString {
			x = &Expr{Op: OpCast, Type: t, Args: []*Expr{x}}
		}
		slots = append(slots, Field{Type: u64}, Field{Type: t})
		head := int64(t.Format)<<32 | int64(t.Size)<<8 | int64(t.Kind)
		vals = append(vals, &Expr{Op: OpConst, Type: u64, Int: head}, x)
	}
	if err := checkFormat(format, slots); err != nil {
		c.errorf("printf %q: %w", format, err)
		return
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

// checkFormat has fmt say what it would complain about when the line is printed.
// slots are the values, a head before each.
func checkFormat(format string, slots []Field) error {
	var args []any
	for i := 1; i < len(slots); i += 2 {
		t := slots[i].Type
		args = append(args, printed(t.Kind, t.Format, make([]byte, t.Size)))
	}
	line := fmt.Sprintf(strings.ReplaceAll(format, "%%", ""), args...)
	if _, complaint, bad := strings.Cut(line, "%!"); bad {
		return fmt.Errorf("its verbs and %d values do not match: %%!%s", len(args), complaint)
	}
	return nil
}

// printedType is the type in which a line holds a value: text and bytes in whole
// words, so that numbers behind them stay aligned.
func printedType(a any, x *Expr) Type {
	t := x.Type
	if x.Op == OpVar {
		t = x.Var.Type
	}
	switch v := a.(type) {
	case Str:
		return StringType(textSize(x))
	case string:
		return StringType((len(v) + 8) / 8 * 8)
	case Tuple, Stack:
		if t.Kind == KindAuto && x.Op == OpBytes {
			t = BytesType(len(x.Str))
		}
		if t.Kind == KindBytes {
			return t
		}
	}
	return Int64Type()
}

// textSize is the size of a text value as far as it is known when a program is
// recorded.
func textSize(e *Expr) int {
	t := e.Type
	if e.Op == OpVar {
		t = e.Var.Type
	}
	if t.Kind == KindString {
		return min((t.Size+7)/8*8, 128)
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
	in, err := openStream(s, l.m, 0)
	if err != nil {
		return nil, fmt.Errorf("log %s: %w", l.m.Name, err)
	}
	return &LogReader{log: l, in: in}, nil
}

// Read waits for the next line, and returns how many were lost before it.
func (r *LogReader) Read(ctx context.Context) (line string, lost uint64, err error) {
	if r == nil {
		return "", 0, errNoReader
	}
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
		room := (size + 7) / 8 * 8
		if size < 1 || 8+room > len(b) {
			return "", io.ErrUnexpectedEOF
		}
		args = append(args, printed(Kind(head&0xff), Format(head>>32), b[8:8+size]))
		b = b[8+room:]
	}
	return strings.TrimSuffix(fmt.Sprintf(line.format, args...), "\n"), nil
}

// printed is a value of a line for fmt.
func printed(k Kind, f Format, b []byte) any {
	switch {
	case k == KindString:
		return Text(b)
	case k != KindBytes:
		return int64(binary.LittleEndian.Uint64(b))
	}
	switch f {
	case FormatIP:
		if a, ok := netip.AddrFromSlice(b); ok {
			return a
		}
	case FormatMAC:
		return net.HardwareAddr(bytes.Clone(b))
	case FormatKstack, FormatUstack:
		pcs := make([]uint64, frames(b))
		for i := range pcs {
			pcs[i] = binary.LittleEndian.Uint64(b[8*i:])
		}
		return pcs
	}
	return bytes.Clone(b)
}

// Close ends the stream.
func (r *LogReader) Close() error { return r.in.Close() }
