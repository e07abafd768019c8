package mapx

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/borescope/borescope/hist"
)

// checkPrinted prints a snapshot, reads it, and wants the same text and JSON of
// what was read; with exact also the same entries.
func checkPrinted[K comparable, V any](t *testing.T, s Snapshot[K, V], opts *ParseOptions[V], exact bool) {
	t.Helper()
	other := snap[uint32, uint64](uint32(1), uint64(2))
	var text, js bytes.Buffer
	if Print(&text, "@other", other, nil) != nil || Print(&text, "@x", s, nil) != nil ||
		PrintJSON(&js, "@other", other, nil) != nil || PrintJSON(&js, "@x", s, nil) != nil {
		t.Fatal("print")
	}
	check := func(back Snapshot[K, V], err error) {
		t.Helper()
		if err == io.EOF && len(s.Entries) == 0 {
			return
		}
		var text2, js2 bytes.Buffer
		if err != nil || Print(&text2, "@x", back, nil) != nil || PrintJSON(&js2, "@x", back, nil) != nil {
			t.Fatalf("%v\n%s%s", err, text.String(), js.String())
		}
		if !strings.HasSuffix(text.String(), text2.String()) || !strings.HasSuffix(js.String(), js2.String()) ||
			len(back.Entries) != len(s.Entries) {
			t.Fatalf("printed\n%s%sread and printed again\n%s%s", text.String(), js.String(), text2.String(), js2.String())
		}
		if exact && !reflect.DeepEqual(Values(back), Values(s)) {
			t.Fatalf("read %+v, want %+v", back, s)
		}
	}
	check(Parse[K](&slowReader{text.String(), 0}, "@x", opts))
	check(ParseJSON[K](strings.NewReader(js.String()), "@x", opts))
}

// slowReader gives a few bytes at a time.
type slowReader struct {
	s  string
	at int
}

func (r *slowReader) Read(b []byte) (int, error) {
	n := copy(b[:min(len(b), 7)], r.s[r.at:])
	if r.at += n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

type nested struct {
	In  tuple
	Arr [2]int16
	B   bool
}

func TestParsePrinted(t *testing.T) {
	type none struct{}
	checkPrinted(t, snap[uint64, int64](uint64(3), int64(math.MinInt64), uint64(math.MaxUint64), int64(1)), nil, true)
	checkPrinted(t, snap[none, float64](none{}, 1e300), nil, true)
	checkPrinted(t, snap[tuple, uint64](tuple{A: 1, B: str8("x")}, uint64(4), tuple{B: str8("a b")}, uint64(math.MaxUint64)), nil, true)
	checkPrinted(t, snap[uint8, nested](uint8(1), nested{In: tuple{A: 7, B: str8("q")}, Arr: [2]int16{-1, 2}, B: true}), nil, true)
	checkPrinted(t, snap[string, []uint64]("bash", []uint64{1, 2, 3}, "sh", []uint64{}), nil, true)
	checkPrinted(t, snap[none, Average](none{}, Average{-10, 3}), nil, false)
	checkPrinted(t, snap[int32, Totals](int32(-1), Totals{math.MinInt64, 3}, int32(2), Totals{13, math.MaxUint64}), nil, true)
	checkPrinted(t, snap[[2]uint16, Extreme]([2]uint16{1, 2}, Extreme{-7, 1}), nil, true)
	checkPrinted(t, Snapshot[int, int]{}, nil, true)
	for k := range hist.MaxK + 1 {
		h, _ := hist.NewLog2(k)
		for _, v := range []int64{-1, 0, 1, 77, 1 << 40, math.MaxInt64} {
			h.Add(v)
		}
		checkPrinted(t, snap[tuple, *hist.Log2](tuple{A: 1, B: str8("a")}, h), nil, false)
	}
	linear := func() (*hist.Linear, error) { return hist.NewLinear(-100, 4096, 1024) }
	l, _ := linear()
	for _, v := range []int64{-1000, 0, 5, 3000, 10000} {
		l.Add(v)
	}
	checkPrinted(t, snap[none, *hist.Linear](none{}, l), &ParseOptions[*hist.Linear]{New: linear}, true)
}

func TestParseRefuses(t *testing.T) {
	type strs struct{ A, B [8]byte }
	for _, text := range []string{
		"@x[1: 2", "@x[a]: 2", "@x[1]: b", "@x[1]: 99999999999999999999", "@x[256]: 1", "@x[-1]: 1", "@x[]: 1", "@x[1, 2]: 1", "@x: 1",
	} {
		if s, err := Parse[uint8, uint64](strings.NewReader("@a: 3\n"+text), "@x", nil); err == nil || !strings.HasPrefix(err.Error(), "@x:2: ") || strings.Contains(err.Error(), "strconv") {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
	if _, err := Parse[strs, uint64](strings.NewReader("@x[a, b, c]: 1"), "@x", nil); err == nil {
		t.Error("three parts for two strings")
	}
	if s, err := Parse[tuple, uint64](strings.NewReader("@x[1, b, c]: 1"), "@x", nil); err != nil || s.Entries[0].Key.B != str8("b, c") {
		t.Error(s, err)
	}
	if _, err := Parse[uint8, [2]byte](strings.NewReader("@x[1]: abc"), "@x", nil); err == nil {
		t.Error("three bytes in two")
	}
	if _, err := Parse[struct{ a uint8 }, uint64](strings.NewReader("@x[1]: 1"), "@x", nil); err == nil {
		t.Error("a field that is not exported")
	}
	if _, err := Parse[uint8, *hist.Linear](strings.NewReader("@x[1]:\n[1] 5 ||\n"), "@x", nil); err == nil {
		t.Error("a linear histogram without New")
	}
	for _, text := range []string{"", "{", `{"type": "map", "data": {"@x": 5}}`, `{"type": "map", "data": {"@x": {"1": "x"}}}`, `{"type": "map", "data": {"@x": {"x": 1}}}`} {
		if s, err := ParseJSON[uint8, uint64](strings.NewReader(text), "@x", nil); err == nil || strings.Contains(err.Error(), "strconv") {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
}

// FuzzParse: what is printed is read as the same, and what is read at all prints
// as something that is read as the same.
func FuzzParse(f *testing.F) {
	f.Add(uint64(1), int64(-5), "bash", true, "@x[1, y]: 5\n@x[2, z]: 7\n")
	f.Add(uint64(math.MaxUint64), int64(math.MaxInt64), "a b", false, `{"type": "map", "data": {"@x": {"1,y": 5, "2,z": 7}}}`)
	f.Add(uint64(0), int64(0), "", false, "@x[1, y]:\n[4, 8) 3 |@|\n\n")
	f.Fuzz(func(t *testing.T, a uint64, b int64, text string, flag bool, printed string) {
		if utf8.ValidString(text) && len(text) <= 8 && !strings.ContainsAny(text, "\n\r\x00,[]():") {
			checkPrinted(t, snap[tuple, int64](tuple{A: a, B: str8(text)}, b), nil, true)
			checkPrinted(t, snap[int64, nested](b, nested{In: tuple{A: a, B: str8(text)}, Arr: [2]int16{int16(a), int16(b)}, B: flag}), nil, true)
			checkPrinted(t, snap[uint64, Totals](a, Totals{b, a % 1000}), nil, true)
			checkPrinted(t, snap[bool, Extreme](flag, Extreme{b, 1}), nil, true)
		}
		again(t, printed, func() *uint64 { return new(uint64) })
		again(t, printed, func() **hist.Log2 { return new(*hist.Log2) })
		again(t, printed, func() *Totals { return new(Totals) })
	})
}

// again reads a text as a map with values of a type, by both readers, and what
// it printed as once more.
func again[V any](t *testing.T, printed string, _ func() *V) {
	for _, read := range []func(io.Reader) (Snapshot[tuple, V], error){
		func(r io.Reader) (Snapshot[tuple, V], error) { return Parse[tuple, V](r, "@x", nil) },
		func(r io.Reader) (Snapshot[tuple, V], error) { return ParseJSON[tuple, V](r, "@x", nil) },
	} {
		s, err := read(strings.NewReader(printed))
		if err != nil {
			continue
		}
		for _, e := range s.Entries { // what text can't carry
			if b := string(e.Key.B[:]); strings.ContainsAny(strings.TrimRight(b, "\x00"), "\n\r,[]():") || !utf8.ValidString(b) {
				return
			}
		}
		first, second := new(bytes.Buffer), new(bytes.Buffer)
		err = Print(first, "@x", s, nil)
		back, err2 := Parse[tuple, V](bytes.NewReader(first.Bytes()), "@x", nil)
		if err != nil || err2 != nil || Print(second, "@x", back, nil) != nil || first.String() != second.String() {
			t.Fatalf("%q gives\n%s\nthen\n%s%v", printed, first, second, fmt.Sprint(err, err2))
		}
	}
}
