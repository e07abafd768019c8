package elfbuild

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/compress"
)

// Manifest is the manifest of a recording without a description.
const Manifest = "borescope recording 1\n{}\n"

// recordingBombs returns malicious files of recordings.
func recordingBombs() []Bomb {
	word := `{"size":4,"fields":[{"offset":0,"size":4,"kind":"u"}]}`
	bytesOf := func(n int) string {
		return fmt.Sprintf(`{"size":%d,"fields":[{"offset":0,"size":1,"kind":"u","count":%d}],"slice":true}`, n, n)
	}
	const more, n = 2, 3 << 20
	field := `{"size":8,"kind":"u","count":131072}`
	tall := fmt.Sprintf(`{"size":%d,"fields":[%s]}`, 1<<20,
		strings.TrimSuffix(strings.Repeat(field+",", 20_000), ","))
	strs := func(n, size int) func() []byte { // n values, each of a million strings
		return func() []byte {
			head := binary.AppendUvarint([]byte{more, 0, byte(n)}, 1<<20)
			return append(head, make([]byte, n*(4+size<<20))...)
		}
	}
	table := tableLine(word, word)
	return []Bomb{
		recorded("zero-rows", "t.table", table, zeroRows(more, n, 8*n), 7),
		recorded("zero-snapshots", "t.table", table, zeroRows(0, n, 8*n), 545),
		recorded("small-zero-snapshots", "t.table", table, zeroRows(0, 1<<15, 8<<15), 20_000),
		recorded("strings-of-no-bytes", "t.table", tableLine(word, bytesOf(0)), strs(64, 0), 20),
		recorded("short-strings", "t.table", tableLine(word, bytesOf(1)), strs(16, 1), 20),
		recorded("fields-over-fields", "t.table", tableLine(word, tall),
			zeroRows(0, 16, 16*(4+1<<20)), 1),
		recorded("zero-records", "s.stream", "borescope stream 1\n{}\n", func() []byte {
			const n = 7 << 20
			return append(binary.AppendUvarint([]byte{0}, n), make([]byte, 4*n)...)
		}, 500),
		recorded("zero-file", "f.file", "borescope file 1\n{}\n",
			func() []byte { return make([]byte, 32<<20) }, 545),
		emptyArguments("empty-arguments", 28<<20),
		emptyArguments("fewer-empty-arguments", 7<<20),
	}
}

// emptyArguments returns a manifest of about size bytes of arguments without text.
func emptyArguments(name string, size int) Bomb {
	return Bomb{Name: name, Kind: Recorded, File: "manifest", Make: func() []byte {
		head := []byte("borescope recording 1\n{\"args\":[\"\"")
		return slices.Concat(head, bytes.Repeat([]byte(`,""`), size/3), []byte("]}"))
	}}
}

// zeroRows returns a part of a snapshot with n rows, of zeros.
func zeroRows(op byte, n uint64, size int) func() []byte {
	return func() []byte {
		return append(binary.AppendUvarint([]byte{op, 0}, n), make([]byte, size)...)
	}
}

// tableLine returns the beginning of a recorded table.
func tableLine(key, value string) string {
	return fmt.Sprintf("borescope table 1\n{\"order\":\"little\",\"key\":%s,\"value\":%s}\n", key, value)
}

// recorded returns a Bomb that is a file of a recording: its first two lines, and the same
// chunk n times.
func recorded(name, file, head string, payload func() []byte, n int) Bomb {
	return Bomb{Name: name, Kind: Recorded, File: file, Make: func() []byte {
		chunk := recordedChunk(payload())
		return slices.Concat([]byte(head), bytes.Repeat(chunk, n))
	}}
}

// recordedChunk returns a chunk of a recording with that payload.
func recordedChunk(payload []byte) []byte {
	enc, err := compress.NewEncoder()
	if err != nil {
		panic(err) // its options are constants
	}
	packed, o := enc.Append(nil, payload), binary.LittleEndian
	b := o.AppendUint32(nil, uint32(len(payload)))
	b = o.AppendUint32(b, uint32(len(packed)))
	b = o.AppendUint32(b, crc32.Checksum(packed, crc32.MakeTable(crc32.Castagnoli)))
	return append(b, packed...)
}
