package hist

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var epoch = time.Unix(1700000000, 0)

// TestHeatDropsNothing: trace2heatmap.pl draws 9 of these 11 events: it drops
// the last column and the row of the largest value.
func TestHeatDropsNothing(t *testing.T) {
	like := linear(t, 0, 2000, 100)
	h, err := NewHeat(time.Second, like)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		h.Add(epoch.Add(time.Duration(i)*time.Second), 100)
	}
	h.Add(epoch, 1000)
	g := h.Grid()
	if len(g.Columns) != 10 || g.Total != 11 || g.Columns[9].Counts[0] != 1 || g.Columns[0].Counts[len(g.Rows)-1] != 1 {
		t.Errorf("%+v", g)
	}
	var b bytes.Buffer
	if err := g.WriteSVG(&b, nil); err != nil || strings.Count(b.String(), "<title>") != 11 {
		t.Error(b.String(), err)
	}
}

// TestHeatCells: the cells add up to the events, whatever they are.
func TestHeatCells(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, like := range []Distribution{log2(t, 0), log2(t, 3), linear(t, -100, 5000, 77)} {
		h, err := NewHeat(100*time.Millisecond, like)
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(0)
		for range 5000 {
			v := int64(math.Exp(r.NormFloat64()*4+5)) - 10
			if h.AddN(epoch.Add(time.Duration(r.Int64N(20e9)-10e9)), v, 3) {
				n += 3
			}
		}
		g := h.Grid()
		sum := uint64(0)
		for _, c := range g.Columns {
			for _, n := range c.Counts {
				sum += n
			}
		}
		if n != 15000 || sum != n || g.Total != n || len(g.Columns) != 200 {
			t.Errorf("%d events, %d in cells, total %d, %d columns", n, sum, g.Total, len(g.Columns))
		}
		for i := 1; i < len(g.Rows); i++ {
			if g.Rows[i].Lo != g.Rows[i-1].Hi {
				t.Errorf("row %d: %+v after %+v", i, g.Rows[i], g.Rows[i-1])
			}
		}
	}
}

func TestHeatBounds(t *testing.T) {
	h, err := NewHeat(time.Second, log2(t, 0))
	if err != nil {
		t.Fatal(err)
	}
	h.Add(epoch, 1)
	if h.Add(epoch.Add(1e6*time.Second), 1) || h.Add(epoch.Add(-1e6*time.Second), 1) {
		t.Error("a million columns")
	}
	if g := h.Grid(); g.Total != 1 || len(g.Columns) != 1 {
		t.Error(g.Total)
	}
	if err := h.AddDistribution(epoch, log2(t, 2, 5, 5)); err != nil || h.Grid().Total != 3 {
		t.Error(err)
	}
	if err := h.AddDistribution(epoch, linear(t, 0, 10, 1)); !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
	if _, err := NewHeat(0, log2(t, 0)); err == nil {
		t.Error("columns of no width")
	}
	if _, err := NewHeat(time.Second, nil); err == nil {
		t.Error("no rows")
	}
}

func TestOffsetHeat(t *testing.T) {
	for _, rows := range []int{1, 7, 50, 1000} {
		h, err := NewOffsetHeat(rows)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for at := time.Duration(0); at < 3*time.Second; at += 999999 * time.Nanosecond {
			h.AddTime(epoch.Add(at))
			n++
		}
		h.AddTime(epoch.Add(3*time.Second - 1))
		g := h.Grid()
		if len(g.Rows) != rows || len(g.Columns) != 3 || g.Total != uint64(n+1) {
			t.Errorf("%d rows, %d columns, %d events; want %d, 3, %d", len(g.Rows), len(g.Columns), g.Total, rows, n+1)
		}
	}
	if _, err := NewOffsetHeat(0); err == nil {
		t.Error("no rows")
	}
}

func TestHeatSVG(t *testing.T) {
	h, _ := NewHeat(time.Second, log2(t, 0))
	for i := range 20 {
		h.AddN(epoch.Add(time.Duration(i)*time.Second), int64(1)<<i, uint64(i+1))
	}
	h.Add(epoch, -5)
	var a, b bytes.Buffer
	opts := &HeatOptions{Title: "I/O <&>", Unit: "us", LogColour: true, Palette: "blue", Zone: time.UTC}
	if err := h.Grid().WriteSVG(&a, opts); err != nil {
		t.Fatal(err)
	}
	if err := h.Grid().WriteSVG(&b, opts); err != nil || a.String() != b.String() {
		t.Error("the same data gives other bytes")
	}
	d := xml.NewDecoder(&a)
	for {
		_, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"I/O &lt;&amp;&gt;", "22:13:39, 524.288 ms to 1.049 s: 20 (100.0 % of the column", "below 0 ns",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

func TestHeatText(t *testing.T) {
	h, _ := NewHeat(time.Second, linear(t, 0, 30, 10))
	for i, v := range []int64{5, 5, 5, 5, 15, 25} {
		h.Add(epoch.Add(time.Duration(i/4)*2*time.Second), v)
	}
	opts := &HeatOptions{NoColour: true, Zone: time.UTC, Unit: "bytes"}
	want := `        20 B |  ▒|
        10 B |  ▒|
         0 B |█  |
              22:13:20 … 22:13:22
`
	if got := h.Grid().Text(80, opts); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := h.Grid().Text(15, opts); !strings.Contains(got, "(the newest 1 of 3 columns)") {
		t.Error(got)
	}
	opts.NoColour = false
	if got := h.Grid().Text(80, opts); !strings.Contains(got, "\x1b[48;2;200;0;0m \x1b[0m") {
		t.Errorf("%q", got)
	}
	empty, _ := NewHeat(time.Second, log2(t, 0))
	if got := empty.Grid().Text(80, nil); got != "<no data>\n" {
		t.Error(got)
	}
}
