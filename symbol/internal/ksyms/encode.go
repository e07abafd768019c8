package ksyms

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/borescope/borescope/symbol/internal/index"
)

// ErrTable is the error for data that is not an encoded table.
var ErrTable = errors.New("not a table of kernel symbols")

// Encode returns a table in Decode's form, without the symbols of modules for which passing
// returns true: those that come and go.
func Encode(t *Table, passing func(mod string) bool) []byte {
	le := binary.LittleEndian
	var values, typ, skip, runs, arena []byte
	last, n := -1, 0
	for i, name := range t.All() {
		mod := t.Module(i)
		if passing(mod) {
			continue
		}
		if n%nameSkip == 0 {
			skip = le.AppendUint32(skip, uint32(len(arena)))
		}
		if m := slices.Index(t.mods, mod); m != last {
			runs = le.AppendUint16(le.AppendUint32(runs, uint32(n)), uint16(m))
			last = m
		}
		values, typ, arena = le.AppendUint64(values, t.At(i)), append(typ, t.typ[i]),
			appendName(arena, name)
		n++
	}
	mods := []byte(strings.Join(t.mods, "\n"))
	var out []byte
	for _, part := range [][]byte{values, typ, skip, runs, arena, mods} {
		out = le.AppendUint32(out, uint32(len(part)))
	}
	for _, part := range [][]byte{values, typ, skip, runs, arena, mods} {
		out = append(out, part...)
	}
	return out
}

// Decode reads a table of size bytes that Encode wrote, each part into memory of its own. The
// larger parts stay there. The file's checksum guards against accidents, the checks here
// against all else.
func Decode(r io.Reader, size int64) (*Table, error) {
	le := binary.LittleEndian
	var parts [6][]byte // without the first
	var lens [4 * len(parts)]byte
	if _, err := io.ReadFull(r, lens[:]); err != nil {
		return nil, ErrTable
	}
	left := size - int64(len(lens))
	for i := range parts {
		left -= int64(le.Uint32(lens[4*i:]))
	}
	if left != 0 {
		return nil, ErrTable
	}
	values, err := readValues(r, le.Uint32(lens[:]))
	if err != nil {
		return nil, err
	}
	for i := 1; i < len(parts); i++ {
		parts[i] = make([]byte, le.Uint32(lens[4*i:]))
		if _, err := io.ReadFull(r, parts[i]); err != nil {
			return nil, ErrTable
		}
	}
	n := len(parts[1])
	if len(values) != n || len(parts[2]) != 4*((n+nameSkip-1)/nameSkip) || len(parts[3])%6 != 0 {
		return nil, ErrTable
	}
	t := &Table{typ: parts[1], arena: parts[4], skip: make([]uint32, 0, len(parts[2])/4)}
	t.mods = strings.Split(string(parts[5]), "\n")
	off := uint64(0)
	for i := range values {
		if i%nameSkip == 0 {
			t.skip = append(t.skip, le.Uint32(parts[2][4*(i/nameSkip):]))
		}
		if i%nameSkip == 0 && uint64(t.skip[i/nameSkip]) != off || i > 0 && values[i] < values[i-1] {
			return nil, ErrTable
		}
		if off = skipName(t.arena, off); off > uint64(len(t.arena)) {
			return nil, ErrTable
		}
	}
	for r := parts[3]; len(r) > 0; r = r[6:] {
		run := modRun{le.Uint32(r), le.Uint16(r[4:])}
		if int(run.mod) >= len(t.mods) || (len(t.modRuns) == 0) != (run.first == 0) {
			return nil, ErrTable
		}
		t.modRuns = append(t.modRuns, run)
	}
	if n > 0 && len(t.modRuns) == 0 {
		return nil, ErrTable
	}
	t.Addrs = index.NewAddrs(values)
	return t, nil
}

// readValues reads 8-byte numbers, size bytes in all.
func readValues(r io.Reader, size uint32) ([]uint64, error) {
	values := make([]uint64, 0, size/8)
	buf := make([]byte, 32<<10)
	for size > 0 {
		b := buf[:min(size, uint32(len(buf)))]
		if _, err := io.ReadFull(r, b); err != nil || len(b)%8 != 0 {
			return nil, ErrTable
		}
		size -= uint32(len(b))
		for ; len(b) > 0; b = b[8:] {
			values = append(values, binary.LittleEndian.Uint64(b))
		}
	}
	return values, nil
}

// skipName returns the offset after the name at off, or one beyond the arena if there is none;
// see appendName.
func skipName(arena []byte, off uint64) uint64 {
	size := uint64(0)
	for off < uint64(len(arena)) {
		n := uint64(arena[off])
		off++
		size += n
		if n < 255 {
			return off + size
		}
	}
	return uint64(len(arena)) + 1
}
