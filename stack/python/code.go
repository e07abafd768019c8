package python

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unicode/utf16"
)

// Code describes a code object: a function, a class's body, a module.
type Code struct {
	// Name is the qualified name, as in "Decoder.decode" or "<module>".
	Name string
	// File is the source file's name as the interpreter has it.
	File string
	// FirstLine is the line where the function begins.
	FirstLine int
	// Shim is set for the interpreter's own code, which Frames leaves out: since 3.12 it
	// has a frame where a class is called.
	Shim bool

	lines  uint64 // address of co_linetable: the location table
	instrs uint64 // address of the instructions
}

// Bounds of a code object's parts.
const (
	maxText  = 4 << 10
	maxLines = 1 << 20
)

var errNotCode = errors.New("not a code object (any more)")

// Code reads a code object at the PC of an interpreted frame. The code object of a frame
// recorded earlier may be gone; in most cases the error reports that. The error is
// stack.ErrBudget if it was not read because of the budget (Interpreter).
func (p *Interpreter) Code(addr uint64) (*Code, error) {
	if p.kept == nil {
		return p.readCode(addr)
	}
	return p.kept.code(p, addr)
}

func (p *Interpreter) readCode(addr uint64) (*Code, error) {
	l := &p.layout
	var b [codeSize]byte
	n := max(l.codeInstrs, l.codeLines+8)
	if err := p.mem.ReadMemory(b[:n], addr); err != nil {
		return nil, err
	}
	word := func(off uint64) uint64 { return binary.LittleEndian.Uint64(b[off:]) }
	if p.codeType != 0 && word(l.objectType) != p.codeType {
		return nil, errNotCode
	}
	c := &Code{
		FirstLine: int(int32(binary.LittleEndian.Uint32(b[l.codeFirstLine:]))),
		lines:     word(l.codeLines),
		instrs:    addr + l.codeInstrs,
		Shim:      word(l.codeFile) == word(l.codeName),
	}
	var err error
	if c.Name, err = p.text(word(l.codeQualname)); err != nil {
		return nil, fmt.Errorf("name of a code object: %w", err)
	}
	if c.File, err = p.text(word(l.codeFile)); err != nil {
		return nil, fmt.Errorf("file of a code object: %w", err)
	}
	return c, nil
}

// buffers are for bytes objects, as *[]byte: a process may have a large one in every frame.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// bytes reads a bytes object into a buffer.
func (p *Interpreter) bytes(buf *[]byte, addr uint64) ([]byte, error) {
	n, err := p.word(addr + p.layout.bytesSize)
	if err != nil {
		return nil, err
	}
	if n > maxLines {
		return nil, fmt.Errorf("bytes object of %d bytes", n)
	}
	*buf = slices.Grow((*buf)[:0], int(n))[:n]
	return *buf, p.mem.ReadMemory(*buf, addr+p.layout.bytesData)
}

// text reads a str object, in one of its three widths (PEP 393).
func (p *Interpreter) text(addr uint64) (string, error) {
	l := &p.layout
	n, err := p.word(addr + l.textLength)
	if err != nil {
		return "", err
	}
	state, err := p.word(addr + l.textState)
	if err != nil {
		return "", err
	}
	// Bit fields: interned has two, kind three, compact and ascii one each.
	kind, compact, ascii := state>>2&7, state>>5&1 != 0, state>>6&1 != 0
	if n > maxText || !compact || kind != 1 && kind != 2 && kind != 4 {
		return "", errNotCode
	}
	data := addr + l.textCompact
	if ascii {
		data = addr + l.textASCII
	}
	b := make([]byte, n*kind)
	if err := p.mem.ReadMemory(b, data); err != nil {
		return "", err
	}
	return decodeText(b, kind, ascii), nil
}

// decodeText turns Latin-1, UCS-2 or UCS-4 into UTF-8.
func decodeText(b []byte, kind uint64, ascii bool) string {
	if ascii {
		return string(b)
	}
	var out []rune
	for i := uint64(0); i+kind <= uint64(len(b)); i += kind {
		switch kind {
		case 1:
			out = append(out, rune(b[i]))
		case 2:
			out = append(out, utf16.Decode([]uint16{binary.LittleEndian.Uint16(b[i:])})...)
		default:
			out = append(out, rune(binary.LittleEndian.Uint32(b[i:])))
		}
	}
	return string(out)
}

// line returns the line of the instruction that a frame of a code object points to, FirstLine
// if the table does not say or, with an error, cannot be read.
func (p *Interpreter) line(c *Code, instr uint64) (int, error) {
	if instr < c.instrs {
		return c.FirstLine, nil // it has not begun
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	table, err := p.bytes(buf, c.lines)
	if err != nil {
		return c.FirstLine, err
	}
	if line, ok := lineAt(table, c.FirstLine, (instr-c.instrs)/2); ok {
		return line, nil
	}
	return c.FirstLine, nil
}

// lineAt looks a code unit up in a location table (Objects/locations.md): each
// entry begins with a byte that has its top bit set, then a kind in four bits and
// the number of code units less one in three.
func lineAt(table []byte, line int, unit uint64) (int, bool) {
	const (
		oneLine0  = 10
		noColumns = 13
		long      = 14
		none      = 15
	)
	for at := uint64(0); len(table) > 0; {
		if table[0]&0x80 == 0 {
			return 0, false
		}
		kind, units := table[0]>>3&15, uint64(table[0]&7)+1
		table = table[1:]
		switch {
		case kind >= oneLine0 && kind < noColumns:
			line += int(kind - oneLine0)
		case kind == noColumns || kind == long:
			var delta int
			delta, table = pythonSigned(table)
			line += delta
		}
		if at += units; unit < at {
			return line, kind != none
		}
		for len(table) > 0 && table[0]&0x80 == 0 {
			table = table[1:] // columns
		}
	}
	return 0, false
}

// pythonSigned reads a number in groups of six bits, lowest first; its own lowest
// bit is the sign.
func pythonSigned(b []byte) (int, []byte) {
	v := 0
	for shift := 0; len(b) > 0; shift += 6 {
		c := b[0]
		b = b[1:]
		if shift < 60 {
			v |= int(c&63) << shift
		}
		if c&64 == 0 {
			break
		}
	}
	if v&1 != 0 {
		return -(v >> 1), b
	}
	return v >> 1, b
}
