package hist

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/escape"
)

// HeatOptions are the options for drawing a heat map; the zero value draws a red SVG
// without a title.
type HeatOptions struct {
	// Title is above the picture; empty means none.
	Title string
	// Unit is the unit of the values. "ns", "us", "ms" or "s" print times in readable
	// units, "bytes" prints sizes, and any other text is printed behind the number.
	Unit string
	// Palette is "red" (the default), "blue", "green" or "grey".
	Palette string
	// LogColour makes colours follow the logarithm of the counts, so that rare
	// cells stay visible beside frequent ones.
	LogColour bool
	// Cell is the size of a cell in pixels; 0 chooses one by the number of
	// columns.
	Cell int
	// Zone is the time zone of the times; nil means local time.
	Zone *time.Location
	// NoColour draws on terminals with shades instead of colours.
	NoColour bool
}

// palettes are the colours of full cells. The colours of emptier cells are between them and a
// pale shade of the same hue.
var palettes = map[string][2][3]int{
	"red":   {{255, 235, 225}, {200, 0, 0}},
	"blue":  {{225, 235, 255}, {0, 40, 170}},
	"green": {{225, 250, 225}, {0, 110, 30}},
	"grey":  {{235, 235, 235}, {20, 20, 20}},
}

// share returns the fill of a cell, between 0 and 1.
func (g *Grid) share(n uint64, o *HeatOptions) float64 {
	if o.LogColour {
		return math.Log1p(float64(n)) / math.Log1p(float64(g.Max))
	}
	return float64(n) / float64(g.Max)
}

// shade returns the colour of a cell that is not empty.
func (g *Grid) shade(n uint64, o *HeatOptions) [3]int {
	p, ok := palettes[o.Palette]
	if !ok {
		p = palettes["red"]
	}
	f := g.share(n, o)
	var c [3]int
	for i := range c {
		c[i] = p[0][i] + int(math.Round(f*float64(p[1][i]-p[0][i])))
	}
	return c
}

// WriteSVG draws the heat map as one SVG image that needs no other file. The pointer over a
// cell shows its times, values, count and share. The same data gives the same bytes. opts
// may be nil.
func (g Grid) WriteSVG(w io.Writer, opts *HeatOptions) error {
	o := heatOptions(opts)
	cell := o.Cell
	if cell <= 0 {
		cell = max(2, min(16, 960/max(len(g.Columns), 1)))
	}
	const left, top, bottom = 90, 40, 40
	width, height := left+len(g.Columns)*cell+20, top+len(g.Rows)*cell+bottom
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n",
		max(width, 300), height, max(width, 300), height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	fmt.Fprintf(&b, `<text x="%d" y="22" font-size="15">%s</text>`+"\n", left, escape.Markup(o.Title))
	if g.Total == 0 {
		fmt.Fprintf(&b, `<text x="%d" y="36">no data</text>`+"\n", left)
	}
	for x, c := range g.Columns {
		column := uint64(0)
		for _, n := range c.Counts {
			column += n
		}
		for y, n := range c.Counts {
			if n == 0 {
				continue
			}
			rgb := g.shade(n, &o)
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="rgb(%d,%d,%d)"><title>%s</title></rect>`+"\n",
				left+x*cell, top+(len(g.Rows)-1-y)*cell, cell, cell, rgb[0], rgb[1], rgb[2],
				escape.Markup(g.hover(c, y, n, column, &o)))
		}
	}
	g.axes(&b, cell, left, top, &o)
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// hover returns the text of a cell for the pointer.
func (g *Grid) hover(c Column, y int, n, column uint64, o *HeatOptions) string {
	r := g.Rows[y]
	return fmt.Sprintf("%s, %s: %d (%.1f %% of the column, %.2f %% of all)",
		stamp(c.Start, g.Interval, o.Zone),
		o.valueRange(r.Lo, r.Hi, g.Offset), n, 100*float64(n)/float64(column),
		100*float64(n)/float64(g.Total))
}

func (g *Grid) axes(b *strings.Builder, cell, left, top int, o *HeatOptions) {
	every := max(1, 20/cell)
	for y, r := range g.Rows {
		if y%every == 0 && r.Lo != math.MinInt64 {
			fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", left-4,
				top+(len(g.Rows)-y)*cell, escape.Markup(o.value(r.Lo, g.Offset)))
		}
	}
	every = max(1, 120/cell)
	for x := 0; x < len(g.Columns); x += every {
		fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", left+x*cell, top+len(g.Rows)*cell+16,
			stamp(g.Columns[x].Start, g.Interval, o.Zone))
	}
}

// Text draws the heat map on a terminal, a character for each cell: coloured blocks, or
// shades with NoColour. A map that is wider than width shows its newest columns, and a
// note. opts may be nil.
func (g Grid) Text(width int, opts *HeatOptions) string {
	o := heatOptions(opts)
	var b strings.Builder
	if o.Title != "" {
		fmt.Fprintln(&b, o.Title)
	}
	if g.Total == 0 {
		return b.String() + "<no data>\n"
	}
	const label = 12
	columns := g.Columns
	if room := max(width-label-2, 1); len(columns) > room {
		fmt.Fprintf(&b, "(the newest %d of %d columns)\n", room, len(columns))
		columns = columns[len(columns)-room:]
	}
	for y := len(g.Rows) - 1; y >= 0; y-- {
		text := "below"
		if g.Rows[y].Lo != math.MinInt64 {
			text = o.value(g.Rows[y].Lo, g.Offset)
		}
		fmt.Fprintf(&b, "%*s |", label, text)
		for _, c := range columns {
			n := uint64(0)
			if c.Counts != nil {
				n = c.Counts[y]
			}
			b.WriteString(g.block(n, &o))
		}
		b.WriteString("|\n")
	}
	fmt.Fprintf(&b, "%*s  %s … %s\n", label, "", stamp(columns[0].Start, g.Interval, o.Zone),
		stamp(columns[len(columns)-1].Start, g.Interval, o.Zone))
	return b.String()
}

// block returns the text of one cell on a terminal. A cell that is not empty is never blank.
func (g *Grid) block(n uint64, o *HeatOptions) string {
	if n == 0 {
		return " "
	}
	if o.NoColour {
		shades := []rune("░▒▓█")
		return string(shades[min(int(g.share(n, o)*4), 3)])
	}
	c := g.shade(n, o)
	return fmt.Sprintf("\x1b[48;2;%d;%d;%dm \x1b[0m", c[0], c[1], c[2])
}

func heatOptions(opts *HeatOptions) HeatOptions {
	if opts == nil {
		return HeatOptions{}
	}
	return *opts
}

func stamp(t time.Time, interval time.Duration, zone *time.Location) string {
	t = t.Local()
	if zone != nil {
		t = t.In(zone)
	}
	if interval%time.Second == 0 {
		return t.Format("15:04:05")
	}
	return t.Format("15:04:05.000")
}

func (o *HeatOptions) valueRange(lo, hi int64, offset bool) string {
	switch {
	case lo == math.MinInt64:
		return "below " + o.value(hi, offset)
	case hi == math.MaxInt64:
		return o.value(lo, offset) + " and more"
	}
	return o.value(lo, offset) + " to " + o.value(hi, offset)
}

// value prints a number in its unit, with at most three digits after the point.
func (o *HeatOptions) value(v int64, offset bool) string {
	units := map[string]float64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
	unit := o.Unit
	if offset {
		unit = "ns"
	}
	if ns, ok := units[unit]; ok {
		return scaled(float64(v)*ns, []step{{1e9, " s"}, {1e6, " ms"}, {1e3, " µs"}, {1, " ns"}})
	}
	if unit == "bytes" {
		return scaled(float64(v),
			[]step{{1 << 30, " GiB"}, {1 << 20, " MiB"}, {1 << 10, " KiB"}, {1, " B"}})
	}
	s := strconv.FormatInt(v, 10)
	if unit != "" {
		s += " " + unit
	}
	return s
}

type step struct {
	size float64
	name string
}

func scaled(v float64, steps []step) string {
	s := steps[len(steps)-1]
	for _, t := range steps {
		if math.Abs(v) >= t.size {
			s = t
			break
		}
	}
	return strconv.FormatFloat(math.Round(v/s.size*1000)/1000, 'f', -1, 64) + s.name
}
