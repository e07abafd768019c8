package symbol

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestPerfMap(t *testing.T) {
	text := "1000 100 first\n0x1010 0X10 inner with  spaces\n1080 100 second\r\n\n" +
		"zz 1 bad\n10\n2000 0 empty\nffffffffffffffff 5 wraps\n12345678901234567 1 long\n3000 8\n4000 10 unfinished"
	m, err := ParsePerfMap(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if m.Bad != 5 || len(m.ents) != 5 {
		t.Errorf("%d bad lines, %d entries", m.Bad, len(m.ents))
	}
	for _, c := range []struct {
		pc     uint64
		name   string
		offset uint64
	}{
		{0xfff, "", 0},
		{0x1000, "first", 0},
		{0x1015, "inner with  spaces", 5},
		{0x1020, "first", 0x20},
		{0x1080, "second", 0},
		{0x117f, "second", 0xff},
		{0x1180, "", 0},
		{0x2000, "empty", 0},
		{0x4004, "unfinished", 4},
	} {
		f := m.Resolve(nil, []uint64{c.pc})[0]
		if f.Name != c.name || f.Offset != c.offset || (c.name == "") != (f.Reason == ReasonAnonymous) {
			t.Errorf("%#x: got %+v", c.pc, f)
		}
	}
	if _, err := ParsePerfMap(errorReader{strings.NewReader(text)}); err == nil {
		t.Error("the reader's error is lost")
	}
}

// endless is a perf map of 10 GB in lines that are far too long.
type endless struct{ n int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.n >= 10<<30 {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = 'a'
	}
	e.n += int64(len(p))
	return len(p), nil
}

func TestPerfMapWithoutEnd(t *testing.T) {
	e := &endless{}
	m, err := ParsePerfMap(e)
	if err != nil || len(m.ents) != 0 || e.n > maxPerfMap+1<<20 || m.Bad != 1 {
		t.Errorf("%v: read %d bytes, %d bad", err, e.n, m.Bad)
	}
}

// FuzzPerfMap compares with a search for the last line that covers an address.
func FuzzPerfMap(f *testing.F) {
	f.Add([]byte("10 10 a\n18 4 b\n0 100 c\n18 1 d\n"), uint64(0x18))
	f.Add([]byte("5 5 a\n5 5 b\n7 9 c\n1 ffff d\n2 3 e\n"), uint64(7))
	f.Fuzz(func(t *testing.T, b []byte, pc uint64) {
		m, err := ParsePerfMap(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		pcs := []uint64{pc}
		for i := range m.ents {
			pcs = append(pcs, m.ents[i].start, m.ents[i].start+m.ents[i].size-1, m.ents[i].start+m.ents[i].size)
		}
		for _, pc := range pcs {
			want := ""
			for i := range m.ents {
				if e := &m.ents[i]; pc >= e.start && pc-e.start < e.size {
					want = fmt.Sprintf("%s+%d", m.arena[e.name:e.name+e.len], pc-e.start)
				}
			}
			got := ""
			if f := m.Resolve(nil, []uint64{pc})[0]; f.Name != "" {
				got = fmt.Sprintf("%s+%d", f.Name, f.Offset)
			}
			if got != want && pc != 1<<64-1 {
				t.Fatalf("%#x: got %q, want %q", pc, got, want)
			}
		}
	})
}
