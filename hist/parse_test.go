package hist

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestParseText reads what Debian's bpftrace printed.
func TestParseText(t *testing.T) {
	rows := strings.Split(golden(t, "bpftrace-0.17.txt"), "\n\n")
	n := 0
	for _, part := range rows {
		name, text, ok := strings.Cut(strings.TrimLeft(part, "\n"), ": \n")
		if !ok {
			continue
		}
		n++
		buckets, err := ParseText(strings.TrimRight(text, "\n"))
		if err != nil || len(buckets) == 0 {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		if name == "@a" || name == "@b" {
			h, err := Log2Of(buckets)
			if err != nil || strings.TrimRight(h.String(), "\n") != strings.TrimRight(text, "\n") {
				t.Errorf("%s: %v\n%s\nwant\n%s", name, err, h, text)
			}
		}
	}
	if n != 6 {
		t.Errorf("%d histograms", n)
	}
	for _, bad := range []string{
		"x", "[1]", "[1] 5", "[1, 2] 5 |@|", "(1, 2) 5 |@|", "[2, 1) 5 |@|", "[1K1, 2K) 5 |@|", "[1KK, 2K) 5 |@|",
		"[9E, 10E) 1 |@|", "[-9E, 1) 1 |@|", "[4]  1 |@|\n[4]  1 |@|", "[1] -1 |@|", "[1] 1 |@|\n\n", "[) 1 |", "[1, 2) 18446744073709551616 |@|",
	} {
		if b, err := ParseText(bad); err == nil {
			t.Errorf("%q is accepted: %v", bad, b)
		}
	}
	if _, err := Log2Of([]Bucket{{3, 5, 1}}); !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
}

// FuzzPrinted: every histogram's text and JSON give its buckets back. A few hundred
// executions a second, of which each prints and reads up to some thousand rows.
func FuzzPrinted(f *testing.F) {
	f.Add(int64(5), int64(-1), int64(1<<40), uint8(3))
	f.Add(int64(math.MaxInt64), int64(0), int64(1), uint8(5))
	f.Fuzz(func(t *testing.T, a, b, c int64, k uint8) {
		h := log2(t, int(k%(MaxK+1)), a, b, c)
		l := linear(t, -1<<20, 1<<21, 1<<18, a, b, c)
		odd := linear(t, -7, 100, 9, a, b, c)
		for _, d := range []Distribution{h, l, odd} {
			js, err := ParseJSON(AppendJSON(nil, d, 0))
			if err != nil || !slices.Equal(js, d.Buckets()) {
				t.Fatalf("JSON of %v: %v, %v", d, js, err)
			}
			printed, _ := textOf(d, nil)
			rows, err := ParseText(printed)
			if err != nil || !slices.Equal(rows, d.Buckets()) {
				t.Fatalf("text of %v: %v, %v", d, rows, err)
			}
		}
		back, err := Log2Of(h.Buckets())
		if err != nil || back.String() != h.String() {
			t.Fatalf("%v\nback\n%v\n%v", h, back, err)
		}
		again := linear(t, -7, 100, 9)
		if err := again.AddBuckets(odd.Buckets()); err != nil || !reflect.DeepEqual(again, odd) {
			t.Fatal(again, err)
		}
	})
}

// FuzzParse: what is read at all, whoever wrote it, is written and read as the same.
func FuzzParse(f *testing.F) {
	f.Add("[2, 4)  1 |@|\n[4K, 8K) 7 ||")
	f.Add(`[{"max": -1, "count": 2}, {"min": 0, "max": "9223372036854775807", "count": 1}]`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func() ([]Bucket, error){
			func() ([]Bucket, error) { return ParseText(text) },
			func() ([]Bucket, error) { return ParseJSON([]byte(text)) },
		} {
			buckets, err := parse()
			if err != nil {
				continue
			}
			if h, err := Log2Of(buckets); err == nil {
				rows, err := ParseText(h.String())
				if again, err2 := Log2Of(rows); err != nil || err2 != nil || again.String() != h.String() {
					t.Fatalf("%q is\n%v\nand read again\n%v%v %v", text, h, again, err, err2)
				}
			}
		}
	})
}

// TestParseJSONRefuses: mistakes are told in the format's words, not in Go's.
func TestParseJSONRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"{}":                                     `byte 1: want an array of {"min": …, "max": …, "count": …}, got object`,
		`[{"count":"x"}]`:                        "want an array of",
		`[{"min":"x"}]`:                          `bucket 0: edge "x": not a number`,
		`[{"min":3,"max":1,"count":1}]`:          "bucket 0: out of order",
		`[{"min":1,"max":3},{"min":2,"max":9}]`:  "bucket 1: out of order",
		`[{"min":1,"max":99999999999999999999}]`: "not a number of 64 bits",
		"":                                       "unexpected end",
	} {
		if _, err := ParseJSON([]byte(in)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go value") {
			t.Errorf("%s: %v, want … %s …", in, err, want)
		}
	}
}
