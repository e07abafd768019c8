package action

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// Log is a stream of lines that a program prints. The program emits only the values; the
// reader formats them.
type Log struct {
	m     *ir.Map
	lines []logLine
}

// logLine is one Printf: a format, and the types of its values.
type logLine struct {
	format string
	args   int
}

// logMax is the room for the values of a line, in bytes.
const logMax = 256

// NewLog returns a stream of lines over a ring buffer of size bytes (0: ir.DefaultBuffer).
func NewLog(name string, size int) *Log {
	t := ir.Type{Kind: ir.KindTuple, Size: 8 + logMax, Fields: []ir.Field{
		{Name: "line", Offset: 0, Type: ir.IntType(4, false)},
		{Name: "pad", Offset: 4, Type: ir.IntType(4, false)},
		{Name: "values", Offset: 8, Type: ir.BytesType(logMax)},
	}}
	return &Log{m: &ir.Map{Name: name, Kind: ir.MapRing, Entries: size, Value: t, Pos: callerPos()}}
}

// Printf prints a line with fmt's verbs. Numbers are int64 (an unsigned 64-bit value keeps
// its bits), text is string, and bytes are []byte or the type that they stand for: netip.Addr
// (IPv4, IPv6), HardwareAddr (MAC), []uint64 (stacks). Text is cut to 128 bytes. A line
// holds up to 8 values of 256 bytes together.
func (l *Log) Printf(c *Ctx, format string, args ...any) {
	if len(args) > 8 {
		c.errorf("printf %q: %d values, the limit is 8", format, len(args))
		return
	}
	slots := make([]ir.Field, 0, len(args)+1)
	vals := make([]*ir.Expr, 0, len(args)+1)
	for _, a := range args {
		x := lift(a)
		t := printedType(a, x)
		if _, text := a.(Str); text && x.Op != ir.OpString {
			x = &ir.Expr{Op: ir.OpCast, Type: t, Args: []*ir.Expr{x}}
		}
		slots = append(slots, ir.Field{Type: ir.Uint64Type()}, ir.Field{Type: t})
		head := int64(t.Format)<<32 | int64(t.Size)<<8 | int64(t.Kind)
		vals = append(vals, &ir.Expr{Op: ir.OpConst, Type: ir.Uint64Type(), Int: head}, x)
	}
	if err := checkFormat(format, slots); err != nil {
		c.errorf("printf %q: %w", format, err)
		return
	}
	values := ir.TupleType(append(slots, ir.Field{Type: ir.Uint64Type()})...)
	if values.Size >= logMax {
		c.errorf("printf %q: values of %d bytes, the limit is %d", format, values.Size, logMax)
		return
	}
	rest := ir.BytesType(logMax - values.Size)
	fields := append([]ir.Field{{Type: ir.IntType(4, false)}, {Type: ir.IntType(4, false)}}, slots...)
	fields = append(fields, ir.Field{Type: ir.Uint64Type()}, ir.Field{Type: rest})
	event := ir.TupleType(fields...)
	vals = append(vals, zeroOf(ir.Uint64Type()), zeroOf(rest))
	line := len(l.lines)
	l.lines = append(l.lines, logLine{format: format, args: len(args)})
	x := &ir.Expr{Op: ir.OpTuple, Type: event, Pos: callerPos(), Args: append([]*ir.Expr{
		{Op: ir.OpConst, Type: ir.IntType(4, false), Int: int64(line)},
		{Op: ir.OpConst, Type: ir.IntType(4, false), Int: int64(len(args))},
	}, vals...)}
	c.Do(&ir.Stmt{Op: ir.StmtEmit, Map: l.m, X: x})
}

// checkFormat formats zero values to find what fmt would complain about when the line is
// printed. slots are the values, each behind its head.
func checkFormat(format string, slots []ir.Field) error {
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

// printedType returns the type in which a line holds a value. Text and bytes take whole
// words, so that the numbers behind them stay aligned.
func printedType(a any, x *ir.Expr) ir.Type {
	t := x.Type
	if x.Op == ir.OpVar {
		t = x.Var.Type
	}
	switch v := a.(type) {
	case Str:
		return ir.StringType(textSize(x))
	case string:
		return ir.StringType((len(v) + 8) / 8 * 8)
	case Tuple, Stack:
		if t.Kind == ir.KindAuto && x.Op == ir.OpBytes {
			t = ir.BytesType(len(x.Str))
		}
		if t.Kind == ir.KindBytes {
			return t
		}
	}
	return ir.Int64Type()
}

// textSize returns the size of a text value as far as it is known when a program is recorded.
func textSize(e *ir.Expr) int {
	t := e.Type
	if e.Op == ir.OpVar {
		t = e.Var.Type
	}
	if t.Kind == ir.KindString {
		return min((t.Size+7)/8*8, 128)
	}
	return ir.DefaultString
}

// Open opens the stream of lines. The caller closes the reader.
func (l *Log) Open(s bpf.Reader) (*EventReader[string], error) {
	in, err := bpf.OpenStream(s, l.m, 0)
	if err != nil {
		return nil, fmt.Errorf("log %s: %w", l.m.Name, err)
	}
	return &EventReader[string]{in: in, decode: func(rec *mapx.Record, line *string) (err error) {
		*line, err = l.format(rec.Data)
		return err
	}}, nil
}

// format formats the line of an event.
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
		args = append(args, printed(ir.Kind(head&0xff), ir.Format(head>>32), b[8:8+size]))
		b = b[8+room:]
	}
	return strings.TrimSuffix(fmt.Sprintf(line.format, args...), "\n"), nil
}

// HardwareAddr is a hardware address, of any length, in a line of a Log.
type HardwareAddr []byte

// String returns the bytes in hex: "00:00:5e:00:53:01".
func (m HardwareAddr) String() string {
	return strings.ReplaceAll(fmt.Sprintf("% x", []byte(m)), " ", ":")
}

// printed returns a value of a line as fmt gets it.
func printed(k ir.Kind, f ir.Format, b []byte) any {
	switch {
	case k == ir.KindString:
		return Text(b)
	case k != ir.KindBytes:
		return int64(binary.LittleEndian.Uint64(b))
	}
	switch f {
	case ir.FormatIP:
		if a, ok := netip.AddrFromSlice(b); ok {
			return a
		}
	case ir.FormatMAC:
		return HardwareAddr(bytes.Clone(b))
	case ir.FormatKstack, ir.FormatUstack:
		pcs := []uint64{}
		for ; len(b) >= 8 && binary.LittleEndian.Uint64(b) != 0; b = b[8:] {
			pcs = append(pcs, binary.LittleEndian.Uint64(b))
		}
		return pcs
	}
	return bytes.Clone(b)
}
