package elfnotes_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/borescope/borescope/elfnotes"
)

// image builds an ELF64 file with the given note sections and segments, each
// at the offset that it states.
type image struct {
	order    binary.AppendByteOrder
	sections []stretch
	segments []stretch
	body     []byte
}

type stretch struct {
	off, size uint64
	align     uint64
}

func (im image) bytes() []byte {
	o := im.order
	if o == nil {
		o = binary.LittleEndian
	}
	data := byte(elf.ELFDATA2LSB)
	if o.AppendUint16(nil, 1)[0] == 0 {
		data = byte(elf.ELFDATA2MSB)
	}
	phoff := 64 + len(im.body)
	shoff := phoff + 56*len(im.segments)
	b := append([]byte("\x7fELF"), 2, data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	b = o.AppendUint16(b, uint16(elf.ET_DYN))
	b = o.AppendUint16(b, uint16(elf.EM_X86_64))
	b = o.AppendUint32(b, 1)
	b = o.AppendUint64(b, 0)
	b = o.AppendUint64(b, uint64(phoff))
	b = o.AppendUint64(b, uint64(shoff))
	b = o.AppendUint32(b, 0)
	for _, v := range []int{64, 56, len(im.segments), 64, len(im.sections) + 1, 0} {
		b = o.AppendUint16(b, uint16(v))
	}
	b = append(b, im.body...)
	for _, s := range im.segments {
		b = o.AppendUint32(b, uint32(elf.PT_NOTE))
		b = o.AppendUint32(b, 4)
		for _, v := range []uint64{s.off, 0, 0, s.size, s.size, s.align} {
			b = o.AppendUint64(b, v)
		}
	}
	b = append(b, make([]byte, 64)...)
	for _, s := range im.sections {
		b = o.AppendUint32(b, 0)
		b = o.AppendUint32(b, uint32(elf.SHT_NOTE))
		for _, v := range []uint64{0, 0, s.off, s.size, 0, s.align, 0} {
			b = o.AppendUint64(b, v)
		}
	}
	return b
}

func list(t *testing.T, b []byte) ([]string, error) {
	t.Helper()
	f, err := elfnotes.NewFile(elfnotes.Bytes(b))
	if err != nil {
		return nil, err
	}
	var out []string
	notes, errOf := f.Notes()
	for n := range notes {
		out = append(out, fmt.Sprintf("%s@%d %s/%d %s", n.Where, n.Offset, n.Owner, n.Type, n.Desc))
	}
	return out, errOf()
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func note(owner string, typ uint32, desc string, align int) []byte {
	return elfnotes.Append(nil, elfnotes.Note{Owner: owner, Type: typ, Desc: []byte(desc)}, align)
}

func TestSectionsAndSegmentsYieldEachNoteOnce(t *testing.T) {
	// Two sections, of which the second pads to 8; one segment covers both, and
	// a third note that no section has.
	a, b, c := note("A", 1, "aa", 4), note("B", 2, "bbb", 8), note("C", 3, "c", 8)
	body := bytes.Join([][]byte{a, b, c}, nil)
	im := image{
		body: body,
		sections: []stretch{
			{64 + uint64(len(a)), uint64(len(b)), 8},
			{64, uint64(len(a)), 4},
		},
		segments: []stretch{{64, uint64(len(body)), 8}},
	}
	got, err := list(t, im.bytes())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, got, []string{"section@84 B/2 bbb", "section@64 A/1 aa", "PT_NOTE@108 C/3 c"})

	im.sections = nil
	im.segments = []stretch{{64 + uint64(len(a)), uint64(len(b) + len(c)), 8}, {64, uint64(len(a)), 0}}
	if got, err = list(t, im.bytes()); err != nil {
		t.Fatal(err)
	}
	equal(t, got, []string{"PT_NOTE@84 B/2 bbb", "PT_NOTE@108 C/3 c", "PT_NOTE@64 A/1 aa"})
}

func TestBigEndian(t *testing.T) {
	body := elfnotes.Append(nil, elfnotes.Note{Owner: "GNU", Type: 1, Desc: []byte("\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x02\x00\x00\x00\x00"), Order: binary.BigEndian}, 4)
	im := image{order: binary.BigEndian, body: body, sections: []stretch{{64, uint64(len(body)), 4}}}
	f, err := elfnotes.NewFile(bytes.NewReader(im.bytes()))
	if err != nil {
		t.Fatal(err)
	}
	n, err := f.Find("GNU", 1)
	if err != nil {
		t.Fatal(err)
	}
	v, err := n.Decode()
	if err != nil || v.String() != "Linux 3.2.0" {
		t.Errorf("got %v, %v", v, err)
	}
}

func TestDamage(t *testing.T) {
	good := note("A", 1, "aa", 4)
	huge := bytes.Clone(good)
	binary.LittleEndian.PutUint32(huge[4:], 0xfffffff0)
	hugeName := bytes.Clone(good)
	binary.LittleEndian.PutUint32(hugeName, 0xfffffff0)
	noName := bytes.Clone(good)
	binary.LittleEndian.PutUint32(noName, 0)
	tests := []struct {
		name string
		body []byte
		size uint64
		want int // notes before the error
	}{
		{"descriptor-near-2-32", append(bytes.Clone(good), huge...), 0, 1},
		{"name-near-2-32", append(bytes.Clone(good), hugeName...), 0, 1},
		{"cut-header", append(bytes.Clone(good), 1, 2, 3), 0, 1},
		{"section-beyond-file", good, 1 << 50, 0},
		{"section-at-end-of-space", good, 1<<64 - 65, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			size := test.size
			if size == 0 {
				size = uint64(len(test.body))
			}
			b := image{body: test.body, sections: []stretch{{64, size, 4}}}.bytes()
			got, err := list(t, b)
			var format *elfnotes.FormatError
			if !errors.As(err, &format) {
				t.Errorf("error is %v", err)
			}
			if len(got) != test.want {
				t.Errorf("got %q", got)
			}
		})
	}
	t.Run("empty-name", func(t *testing.T) {
		// The descriptor then begins where the name was.
		got, err := list(t, image{body: noName, sections: []stretch{{64, uint64(len(noName)), 4}}}.bytes())
		if err == nil || len(got) != 1 || got[0] != "section@64 /1 A\x00" {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("not-elf", func(t *testing.T) {
		for _, s := range []string{"", "\x7fEL", "#!/bin/sh\n"} {
			if _, err := elfnotes.NewFile(elfnotes.Bytes(s)); !errors.Is(err, elfnotes.ErrNotELF) {
				t.Errorf("%q: %v", s, err)
			}
		}
		if _, err := elfnotes.NewFile(elfnotes.Bytes("\x7fELF\x02\x01")); err == nil || errors.Is(err, elfnotes.ErrNotELF) {
			t.Errorf("cut-off header: %v", err)
		}
	})
}

// 50,000 section headers that claim the same notes must not be read 50,000
// times: bloaty and LIEF had hangs of this kind.
func TestManyHeadersForTheSameNotes(t *testing.T) {
	var body []byte
	for range 20000 {
		body = append(body, note("A", 1, "aa", 4)...)
	}
	im := image{body: body}
	for i := range 50000 {
		im.sections = append(im.sections, stretch{64 + uint64(i), uint64(len(body) - i), 4})
	}
	got, err := list(t, im.bytes())
	if err != nil || len(got) != 20000 {
		t.Errorf("got %d notes, %v", len(got), err)
	}
}

func TestClaimedSizesCostNoMemory(t *testing.T) {
	b := image{body: note("A", 1, "aa", 4), sections: []stretch{{64, 200 << 20, 4}}}.bytes()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := elfnotes.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	notes, errOf := f.Notes()
	for range notes {
	}
	runtime.ReadMemStats(&after)
	if errOf() == nil {
		t.Error("no error for a section that is cut off")
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 64<<10 {
		t.Errorf("%d bytes allocated for a file of %d", got, len(b))
	}
	f.MaxBytes = 1 << 20
	notes, errOf = f.Notes()
	for range notes {
		t.Error("a note above the limit was read")
	}
	if errOf() == nil {
		t.Error("no error above the limit")
	}
}

func TestBuildIDAbsent(t *testing.T) {
	b := image{body: note("A", 1, "aa", 4), sections: []stretch{{64, 20, 4}}}.bytes()
	if _, err := elfnotes.BuildID(elfnotes.Bytes(b)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

func TestNotesOfBytesAllocateNothingButHeaders(t *testing.T) {
	var body []byte
	for range 1000 {
		body = append(body, note("stapsdt", 3, "0123456789", 4)...)
	}
	allocs := testing.AllocsPerRun(10, func() {
		notes, _ := elfnotes.All(body, binary.LittleEndian, 4)
		for range notes {
		}
	})
	if allocs > 8 {
		t.Errorf("%v allocations for 1000 notes", allocs)
	}
}
