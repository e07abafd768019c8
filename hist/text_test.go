package hist

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

func log2(t testing.TB, k int, values ...int64) *Log2 {
	t.Helper()
	h, err := NewLog2(k)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		h.Add(v)
	}
	return h
}

func linear(t testing.TB, lo, hi, step int64, values ...int64) *Linear {
	t.Helper()
	h, err := NewLinear(lo, hi, step)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		h.Add(v)
	}
	return h
}

func golden(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestTextIsBpftraces compares with what Debian's bpftrace printed for the same
// values. The one difference in these is the blank behind the name, which 0.26
// has no more.
func TestTextIsBpftraces(t *testing.T) {
	var b bytes.Buffer
	for _, h := range []struct {
		name string
		d    Distribution
	}{
		{"@a", log2(t, 0, 0, 1, 2, 3, 5, -3, 1024, 100000, 3000000000)},
		{"@b", log2(t, 0, 700, 700, 700, 30000)},
		{"@c", linear(t, 0, 100, 10, 5, -1, 100, 250, 99)},
		{"@d", linear(t, 0, 102400, 1024, 3000, 50000)},
		{"@e", linear(t, 0, 104857600, 1048576, 2097152)},
		{"@f", linear(t, 0, 10, 5, -7, 7)},
	} {
		if err := Print(&b, h.name, h.d, nil); err != nil {
			t.Fatal(err)
		}
	}
	want := golden(t, "bpftrace-0.17.txt")
	want = strings.TrimLeft(strings.TrimPrefix(want, "Attaching 1 probe...\n"), "\n")
	want = strings.TrimRight(strings.ReplaceAll(want, ": \n", ":\n"), "\n") + "\n\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestTextOfLaterBpftrace has what 0.17 can't print: the cases of bpftrace's own
// tests at 0.26, and those in which 0.26 differs.
func TestTextOfLaterBpftrace(t *testing.T) {
	const full = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@"
	check := func(d interface{ String() string }, want ...string) {
		t.Helper()
		got := strings.Split(strings.TrimSuffix(d.String(), "\n"), "\n")
		for i := range got {
			got[i] = got[i][:strings.IndexAny(got[i], ")]")+1]
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("labels %q, want %q", got, want)
		}
	}
	if got, want := log2(t, 0, 2, 16).String(), ""+
		"[2, 4)                 1 |"+full+"|\n"+
		"[4, 8)                 0 |"+strings.Repeat(" ", 52)+"|\n"+
		"[8, 16)                0 |"+strings.Repeat(" ", 52)+"|\n"+
		"[16, 32)               1 |"+full+"|\n"; got != want {
		t.Errorf("got\n%s", got)
	}
	check(linear(t, 0, 10, 1, 3), "[3]")                                            // 0.17: [3, 4)
	check(linear(t, 0, 10, 3, 9), "[9, ...)")                                       // 0.17: [10, ...)
	check(log2(t, 0, math.MaxInt64), "[4E, 8E)")                                    // 0.17: [2G, 4G)
	check(linear(t, 1<<40, 1<<40+10, 5, 1<<40+7), "[1099511627781, 1099511627786)") // truncated to 32 bits
	check(linear(t, 0, 2048, 1024, -5, 5000), "(..., 0)", "[0, 1K)", "[1K, 2K)", "[2K, ...)")
	check(log2(t, 2, 0, 7), "[0]", "[1]", "[2]", "[3]", "[4]", "[5]", "[6]", "[7]")
	check(log2(t, 2, 7, 12), "[7]", "[8, 10)", "[10, 12)", "[12, 14)")
	// With k = 2 the suffix comes with buckets of 1024 values, not with 1024.
	check(log2(t, 2, 2000, 4200), "[1792, 2048)", "[2048, 2560)", "[2560, 3072)", "[3072, 3584)",
		"[3584, 4K)", "[4K, 5K)")
	check(log2(t, 1, -1, 0), "(..., 0)", "[0]")
}

// TestLargeCounts: a bpftrace of 0.26 looks at the low 31 bits of a count when
// it chooses the rows, and libbpf-tools' bars overflow at 107,374,183.
func TestLargeCounts(t *testing.T) {
	h := log2(t, 0)
	for i, n := range []uint64{1 << 32, 1 << 31, 107374183, 5 << 32} {
		h.AddN(1<<i, n)
	}
	text := h.String()
	if lines := strings.Count(text, "\n"); lines != 4 || !strings.HasPrefix(text, "[1] ") {
		t.Errorf("%d rows\n%s", lines, text)
	}
	if !strings.Contains(text, "[8, 16)         21474836480 |@@@@@") || !strings.Contains(text, "[1]             4294967296 |@@@@@@@@@@ ") {
		t.Error(text)
	}
	var b bytes.Buffer
	one := log2(t, 0)
	one.AddN(4, 107374183)
	if err := PrintBCC(&b, one, nil); err != nil || !strings.Contains(b.String(), "|****************************************|") {
		t.Error(b.String(), err)
	}
}

// StripLeadingZero leaves out the rows before the first value of a linear histogram, too, and
// none between two. It printed them.
func TestBCCStripsLinear(t *testing.T) {
	var b bytes.Buffer
	if err := PrintBCC(&b, linear(t, 0, 1000, 1, 3, 5), &BCCOptions{StripLeadingZero: true}); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(b.String()) {
		rows = append(rows, strings.Fields(line)[0])
	}
	if got := strings.Join(rows, " "); got != "value 3 4 5" {
		t.Errorf("rows %s of\n%s", got, b.String())
	}
}

// TestBCC compares with what BCC's own table.py printed.
func TestBCC(t *testing.T) {
	var b bytes.Buffer
	section := func(name string, d Distribution, opts *BCCOptions) {
		fmt.Fprintln(&b, "==", name)
		if err := PrintBCC(&b, d, opts); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		k      int
		strip  bool
		counts map[int64]uint64
	}{
		{"spread", 0, false, map[int64]uint64{0: 3, 1: 4, 2: 1, 5: 17, 100: 9, 1000: 2}},
		{"strip", 3, true, map[int64]uint64{300: 5, 5000: 1}},
		{"leading", 5, false, map[int64]uint64{300: 5, 5000: 1}},
		{"one", 0, false, map[int64]uint64{1: 1}},
		{"wide", 2, false, map[int64]uint64{7: 5, 1 << 40: 3}},
		{"edge", 0, false, map[int64]uint64{1<<32 - 1: 7, 1: 2}},
		{"top", 0, false, map[int64]uint64{math.MaxInt64: 2, 1: 1}},
		{"large", 0, false, map[int64]uint64{1: 107374183, 2: 1 << 31, 4: 1 << 32, 8: 1<<63 + 12345, 16: 1<<63 - 1}},
		{"thirds", 4, false, thirds()},
	} {
		h := log2(t, c.k)
		for v, n := range c.counts {
			h.AddN(v, n)
		}
		section(c.name, h, &BCCOptions{ValType: "usecs", StripLeadingZero: c.strip})
	}
	h := linear(t, 0, 1000, 1, 0, 10, 10)
	h.AddN(3, 7)
	section("linear", h, nil)
	zero := linear(t, 0, 1000, 1)
	zero.AddN(0, 5)
	section("zero", zero, nil)
	if want := golden(t, "bcc.txt"); b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	if err := PrintBCC(&b, log2(t, 0, 1), &BCCOptions{Section: "disk", Name: "'sda'"}); err != nil ||
		!strings.HasPrefix(b.String(), "\ndisk = 'sda'\n     value ") {
		t.Error(b.String(), err)
	}
	if err := PrintBCC(&b, linear(t, 0, 10, 1, -5), nil); err == nil {
		t.Error("a value below the minimum has no row in BCC's layout")
	}
}

func thirds() map[int64]uint64 {
	m := map[int64]uint64{}
	for i := range 30 {
		m[1<<i] = uint64(i*37%101 + 1)
	}
	return m
}

func TestJSONIsBpftraces(t *testing.T) {
	check := func(d Distribution, want string) {
		t.Helper()
		if got := string(AppendJSON(nil, d, 0)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	check(log2(t, 0), `[]`)
	check(log2(t, 0, -5, 0, 1, 2, 3, 5), `[{"max": -1, "count": 1},{"min": 0, "max": 0, "count": 1},`+
		`{"min": 1, "max": 1, "count": 1},{"min": 2, "max": 3, "count": 2},{"min": 4, "max": 7, "count": 1}]`)
	check(log2(t, 0, math.MaxInt64), `[{"min": 4611686018427387904, "max": "9223372036854775807", "count": 1}]`)
	check(linear(t, 0, 100, 10, 95, 250), `[{"min": 90, "max": 99, "count": 1},{"min": 100, "count": 1}]`)
	check(linear(t, 0, 100, 10, -1), `[{"max": -1, "count": 1}]`)
	// bpftrace's own test of hist(n, 3) over 0…1023: 64 buckets in all.
	h := log2(t, 3)
	for i := range int64(1024) {
		h.Add(i)
	}
	got := string(AppendJSON(nil, h, 0))
	for _, want := range []string{
		`[{"min": 0, "max": 0, "count": 1},`, `{"min": 15, "max": 15, "count": 1},{"min": 16, "max": 17, "count": 2},`,
		`{"min": 640, "max": 703, "count": 64},`, `{"min": 960, "max": 1023, "count": 64}]`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if n := strings.Count(got, "count"); n != 64 {
		t.Error(n, "buckets")
	}
	var b bytes.Buffer
	if err := PrintJSON(&b, `@x"y`, log2(t, 0, 1)); err != nil ||
		b.String() != `{"type": "hist", "data": {"@x\"y": [{"min": 1, "max": 1, "count": 1}]}}`+"\n" {
		t.Error(b.String(), err)
	}
}

// TestSeriesText is bpftrace's own test of a zigzag.
func TestSeriesText(t *testing.T) {
	s, err := NewSeries(100*time.Millisecond, 20, Last)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	v, step := int64(-5), int64(1)
	for i := range 21 {
		if i > 0 {
			s.Add(start.Add(time.Duration(i)*100*time.Millisecond), v)
		}
		if v == 5 {
			step = -1
		}
		if i > 0 {
			v += step
		}
	}
	if got, want := s.Text(time.UTC), golden(t, "zigzag.txt"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestSeriesUnsigned: values from 2^63 on are printed, compared and divided as what they are, and the plot's
// limits end where the numbers do.
func TestSeriesUnsigned(t *testing.T) {
	for r, want := range map[Reduction]uint64{Last: 1, Max: 1<<64 - 1, Min: 1, Avg: 0} { // the sum has wrapped
		s, err := NewSeries(time.Second, 3, r)
		if err != nil {
			t.Fatal(err)
		}
		s.Unsigned = true
		for _, v := range []uint64{1<<64 - 1, 1} {
			s.Add(time.Unix(5, 0), int64(v))
		}
		if got := uint64(s.Points()[0].Value); got != want {
			t.Errorf("reduction %d is %d, want %d", r, got, want)
		}
		if b, err := s.MarshalJSON(); err != nil || !strings.HasSuffix(string(b), fmt.Sprintf(`"value":%d}]`, want)) {
			t.Error(string(b), err)
		}
		lo, hi := want-min(want, 1), want+min(1<<64-1-want, 1)
		text := strings.Fields(s.Text(time.UTC))
		if text[0] != fmt.Sprint(lo) || text[1] != fmt.Sprint(hi) {
			t.Errorf("the limits of %d are %s and %s, want %d and %d", want, text[0], text[1], lo, hi)
		}
	}
}

func TestSeriesReductions(t *testing.T) {
	start := time.Unix(1000, 0)
	for r, want := range map[Reduction]string{Last: "2", Avg: "3", Max: "5", Min: "2", Sum: "9", Count: "3"} {
		s, err := NewSeries(time.Second, 3, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Text(time.UTC); got != "<no data>" {
			t.Error(got)
		}
		for _, v := range []int64{5, 2, 2} {
			s.Add(start, v)
		}
		s.Add(start.Add(2*time.Second), 7)
		if s.Add(start.Add(-time.Second), 1) {
			t.Error("an interval that is gone took a value")
		}
		points := s.Points()
		if len(points) != 3 || fmt.Sprint(points[0].Value) != want || points[1].OK || !points[0].Start.Equal(start) {
			t.Errorf("reduction %d: %+v, want %s", r, points, want)
		}
		s.Add(start.Add(10*time.Second), 7)
		if points := s.Points(); len(points) != 1 {
			t.Errorf("%+v", points)
		}
	}
	s, _ := NewSeries(time.Second, 3, Last)
	s.Add(time.Unix(5, 0), 4)
	if b, err := s.MarshalJSON(); err != nil || !strings.HasSuffix(string(b), `.000000000","value":4}]`) {
		t.Error(string(b), err)
	}
	for _, bad := range []struct {
		d time.Duration
		n int
	}{{0, 1}, {1, 0}, {1, 1 << 30}} {
		if _, err := NewSeries(bad.d, bad.n, Last); err == nil {
			t.Error(bad)
		}
	}
}

func TestTextOptions(t *testing.T) {
	h := log2(t, 0, 4, 4, 4, 8)
	rows := func(o TextOptions) string { return drawRows(h.rows(&o), &o) }
	if got := rows(TextOptions{Width: 4, Unicode: true}); got !=
		"[4, 8)                 3 |████|\n[8, 16)                1 |█▎  |\n" {
		t.Error(got)
	}
	if got := rows(TextOptions{Width: 4, Max: 6, Div: 1}); !strings.Contains(got, "|@@  |") {
		t.Error(got)
	}
	if got := rows(TextOptions{Div: 3}); !strings.Contains(got, "[4, 8)                 1 |@") {
		t.Error(got)
	}
}
