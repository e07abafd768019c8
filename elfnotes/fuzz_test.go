package elfnotes_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/borescope/borescope/elfnotes"
)

// FuzzAll checks that what All reads is written back by Append as it was read:
// byte for byte where the input was well-formed and terminated, and in any case
// to notes that read the same. Decoders run on the way.
func FuzzAll(f *testing.F) {
	f.Add(note("GNU", 3, "0123456789abcdef0123", 4), false, false)
	f.Add(note("GNU", 5, "\x02\x00\x00\xc0\x04\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00", 8), true, false)
	f.Add(note("stapsdt", 3, "0123456789abcdef01234567a\x00b\x00-4@%eax\x00", 4), false, false)
	f.Add(note("CORE", 0x46494c45, "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00012345670123456701234567/bin/x\x00", 4), false, true)
	f.Fuzz(func(t *testing.T, b []byte, eight, big bool) {
		align, order := 4, binary.ByteOrder(binary.LittleEndian)
		if eight {
			align = 8
		}
		if big {
			order = binary.BigEndian
		}
		var written []byte
		var first []elfnotes.Note
		notes, errOf := elfnotes.All(b, order, align)
		for n := range notes {
			if v, err := n.Decode(); err == nil {
				_ = v.String()
			}
			written = elfnotes.Append(written, n, align)
			first = append(first, n)
		}
		_ = errOf()
		again, errOf := elfnotes.All(written, order, align)
		i := 0
		for n := range again {
			if w := first[i]; n.Owner != w.Owner || n.Type != w.Type || !bytes.Equal(n.Desc, w.Desc) {
				t.Fatalf("note %d: wrote %q, read %q", i, w.Desc, n.Desc)
			}
			i++
		}
		if err := errOf(); err != nil || i != len(first) {
			t.Fatalf("wrote %d notes, read %d: %v", len(first), i, err)
		}
	})
}

// FuzzFile checks that no file makes reading panic or allocate without bound.
func FuzzFile(f *testing.F) {
	body := append(note("GNU", 3, "0123456789abcdef0123", 4), note("A", 1, "b", 4)...)
	f.Add(image{body: body, sections: []stretch{{64, uint64(len(body)), 4}}}.bytes())
	f.Add(image{body: body, segments: []stretch{{64, 36, 4}, {100, uint64(len(body) - 36), 4}}}.bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := elfnotes.NewFile(elfnotes.Bytes(b))
		if err != nil {
			return
		}
		total := 0
		notes, errOf := file.Notes()
		for n := range notes {
			total += 12 + len(n.Desc)
			_, _ = n.Decode()
			if n.Offset < 0 || n.Offset+12 > int64(len(b)) {
				t.Fatalf("note at %d of %d", n.Offset, len(b))
			}
		}
		_ = errOf()
		// Sections are disjoint, and so are segments that no section covers.
		if total > len(b) {
			t.Fatalf("%d bytes of notes in a file of %d", total, len(b))
		}
	})
}

// TestRoundTrip writes random notes and reads them back, in both byte orders
// and paddings.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		align := 4 + 4*r.IntN(2)
		order := []binary.ByteOrder{binary.LittleEndian, binary.BigEndian}[r.IntN(2)]
		var want []elfnotes.Note
		var b []byte
		for range r.IntN(20) {
			n := elfnotes.Note{Owner: "GNUstapsdtXYZ"[:r.IntN(13)], Type: r.Uint32(), Desc: make([]byte, r.IntN(50)), Order: order}
			want = append(want, n)
			b = elfnotes.Append(b, n, align)
		}
		i := 0
		notes, errOf := elfnotes.All(b, order, align)
		for n := range notes {
			if n.Owner != want[i].Owner || n.Type != want[i].Type || !bytes.Equal(n.Desc, want[i].Desc) || n.Align != align {
				t.Fatalf("wrote %+v, read %+v", want[i], n)
			}
			i++
		}
		if err := errOf(); err != nil || i != len(want) {
			t.Fatalf("wrote %d, read %d: %v", len(want), i, err)
		}
	}
}
