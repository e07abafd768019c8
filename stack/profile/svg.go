package profile

import (
	"bufio"
	_ "embed" // the picture's script
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/borescope/borescope/internal/escape"
)

//go:embed flame.js
var flameJS string

// SVGOptions are the options of flamegraph.pl. The zero value and nil draw with its
// defaults.
type SVGOptions struct {
	// Title is above the picture; "Flame Graph" ("Icicle Graph" where Inverted,
	// "Differential Flame Graph") if empty.
	Title string
	// Subtitle is below the title.
	Subtitle string
	// Notes is kept in the file as its description and not drawn.
	Notes string
	// Width is the picture's width in pixels, 1200 if 0; at least 200.
	Width int
	// FrameHeight is the height of one frame in pixels, 16 if 0.
	FrameHeight int
	// MinWidth is the width in pixels below which a frame is left out, 0.1 if
	// 0; negative draws all.
	MinWidth float64
	// FontType is the font, "Verdana" if empty.
	FontType string
	// FontSize is its size in pixels, 12 if 0.
	FontSize float64
	// CountName is the unit of the counts, "samples" if empty.
	CountName string
	// NameType is before the name of the frame under the pointer, "Function:" if empty.
	NameType string
	// Colors is the palette: hot (also if empty), mem, io, wakeup, chain, java,
	// js, perl, red, green, blue, aqua, yellow, purple or orange.
	Colors string
	// Background is yellow, blue, green, grey or #rrggbb; chosen by the palette
	// if empty.
	Background string
	// Hash gives similar colours to similar names. Colours are a function of
	// the name in either case.
	Hash bool
	// Inverted draws an icicle: roots at the top.
	Inverted bool
	// Reverse merges the stacks from the leaves; see Folded.Reverse.
	Reverse bool
	// Negate swaps red and blue in a differential picture.
	Negate bool
}

// WriteSVG draws a flame graph as one SVG file that needs no other file. It can be searched
// (with the share that matches), zoomed and walked by keyboard in any browser; without
// scripts it is a plain picture with tool tips. A differential set is drawn by the counts
// after, red where a function's own count grew, blue where it fell. The same input gives
// the same bytes.
func WriteSVG(w io.Writer, f *Folded, opts *SVGOptions) error {
	var o SVGOptions
	if opts != nil {
		o = *opts
	}
	if err := o.setDefaults(f.Differential()); err != nil {
		return err
	}
	if o.Reverse {
		f = f.Reverse()
	}
	return drawSVGTree(w, newTree(f), &o, f.Differential())
}

// WriteFlameChart draws stacks from left to right in the order in which they come, instead
// of merging them: with Profile.Timeline the x axis is time. The common frames of adjacent
// stacks are drawn as one. Otherwise the picture is that of WriteSVG. Reverse has no
// meaning here and is an error, as are stacks of a differential set.
func WriteFlameChart(w io.Writer, stacks iter.Seq[FoldedStack], opts *SVGOptions) error {
	var o SVGOptions
	if opts != nil {
		o = *opts
	}
	if o.Reverse {
		return errors.New("flame chart: stacks in the order of time can't be merged from the leaves")
	}
	if o.Title == "" {
		o.Title = "Flame Chart"
	}
	if err := o.setDefaults(false); err != nil {
		return err
	}
	root := &node{name: "all"}
	for s := range stacks {
		if s.Base != 0 {
			return errors.New("flame chart: a differential set has no order of time")
		}
		root.follow(s)
	}
	return drawSVGTree(w, root, &o, false)
}

// follow adds a stack to the right of those that are there.
func (n *node) follow(s FoldedStack) {
	if s.Count <= 0 {
		return
	}
	if len(s.Frames) == 0 {
		s.Frames = []string{unknownFrame}
	}
	before := n.count
	n.add(s)
	for i, name := range s.Frames {
		name = escape.Frame(name, i == len(s.Frames)-1)
		if k := len(n.children); k == 0 || n.children[k-1].name != name || n.end != before {
			n.children = append(n.children, &node{name: name, gap: before - n.end})
		}
		n.end = n.count
		n = n.children[len(n.children)-1]
		before = n.count
		n.add(s)
	}
	n.self = addSaturated(n.self, s.Count)
}

func drawSVGTree(w io.Writer, root *node, o *SVGOptions, diff bool) error {
	d := &svgDrawing{o: *o, w: bufio.NewWriter(w), diff: diff}
	d.layout(root)
	d.header()
	for i := range d.boxes {
		d.box(&d.boxes[i])
	}
	d.str("</g>\n</svg>\n")
	return d.w.Flush()
}

func (o *SVGOptions) setDefaults(diff bool) error {
	if o.Title == "" {
		o.Title = "Flame Graph"
		switch {
		case diff:
			o.Title = "Differential Flame Graph"
		case o.Inverted:
			o.Title = "Icicle Graph"
		}
	}
	setDefault(&o.Width, 1200)
	setDefault(&o.FrameHeight, 16)
	setDefault(&o.MinWidth, 0.1)
	setDefault(&o.FontType, "Verdana")
	setDefault(&o.FontSize, 12)
	setDefault(&o.CountName, "samples")
	setDefault(&o.NameType, "Function:")
	setDefault(&o.Colors, "hot")
	switch {
	case o.Width < 200 || o.Width > 1e6:
		return fmt.Errorf("flame graph: width %d is not between 200 and 1000000", o.Width)
	case o.FrameHeight < 4 || o.FrameHeight > 1000:
		return fmt.Errorf("flame graph: frame height %d is not between 4 and 1000", o.FrameHeight)
	case !(o.FontSize >= 4 && o.FontSize <= 200):
		return fmt.Errorf("flame graph: font size %v is not between 4 and 200", o.FontSize)
	case math.IsNaN(o.MinWidth) || math.IsInf(o.MinWidth, 0):
		return fmt.Errorf("flame graph: minimum width %v", o.MinWidth)
	}
	if err := paletteError(o.Colors); err != nil {
		return err
	}
	_, err := pageColors(o.Background, o.Colors)
	return err
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Layout, after flamegraph.pl: a margin at both sides, three lines of text above
// the frames, two below.
const svgMargin = 10

// charWidth is the mean width of a letter of Verdana, in font sizes.
const charWidth = 0.59

type svgBox struct {
	n     *node
	start int64
	depth int
}

type svgDrawing struct {
	o       SVGOptions
	w       *bufio.Writer
	diff    bool
	boxes   []svgBox // callers before callees, left to right
	total   int64
	perUnit float64 // pixels per count
	height  int
	top     int   // y of the first row of frames
	largest int64 // largest change of a differential picture
}

// layout finds the boxes that are wide enough to draw.
func (d *svgDrawing) layout(root *node) {
	d.total = root.count
	if d.total > 0 {
		d.perUnit = float64(d.o.Width-2*svgMargin) / float64(d.total)
	}
	depth := 0
	for todo := []svgBox{{n: root}}; len(todo) > 0; {
		b := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		d.boxes = append(d.boxes, b)
		depth = max(depth, b.depth)
		if change := b.n.self - b.n.selfBase; d.diff {
			d.largest = max(d.largest, change, -change)
		}
		start := b.start
		first := len(todo)
		for _, c := range b.n.children {
			start += c.gap
			if c.count > 0 && float64(c.count)*d.perUnit >= d.o.MinWidth {
				todo = append(todo, svgBox{c, start, b.depth + 1})
			}
			start += c.count
		}
		slices.Reverse(todo[first:])
	}
	line := int(d.o.FontSize)
	d.top = 3 * line
	if d.o.Subtitle != "" {
		d.top += 2 * line
	}
	d.height = d.top + (depth+1)*d.o.FrameHeight + 2*line + 10
}

func (d *svgDrawing) y(depth int) int {
	if d.o.Inverted {
		return d.top + depth*d.o.FrameHeight
	}
	return d.height - (2*int(d.o.FontSize) + 10) - (depth+1)*d.o.FrameHeight
}

func (d *svgDrawing) str(parts ...string) {
	for _, s := range parts {
		_, _ = d.w.WriteString(s) // the error stays in the bufio.Writer
	}
}

func (d *svgDrawing) header() {
	o := &d.o
	bg, _ := pageColors(o.Background, o.Colors) // setDefaults has checked it
	w, h := itoa(o.Width), itoa(d.height)
	d.str(`<?xml version="1.0" encoding="UTF-8" standalone="no"?>`+"\n",
		`<svg version="1.1" width="`, w, `" height="`, h, `" viewBox="0 0 `, w, " ", h,
		`" xmlns="http://www.w3.org/2000/svg">`+"\n",
		"<desc>", escape.Markup(strings.TrimSpace(
			"Flame graph: click to zoom, Ctrl-F to search, Esc to reset. "+o.Notes)), "</desc>\n",
		`<defs><linearGradient id="background" y1="0" y2="1" x1="0" x2="0">`,
		`<stop stop-color="`, bg[0], `" offset="5%"/><stop stop-color="`, bg[1],
		`" offset="95%"/></linearGradient></defs>`+"\n", "<style>\ntext{font-family:",
		cssString(o.FontType), `,"DejaVu Sans",sans-serif;font-size:`, ftoa(o.FontSize, 2),
		"px;fill:#000}\n",
		flameCSS, "</style>\n<script><![CDATA[\n")
	fmt.Fprintf(d.w, "const graph={width:%d,margin:%d,total:%d,fontSize:%s,charWidth:%s,nameType:%s,countName:%s,inverted:%t};\n",
		o.Width, svgMargin, d.total, ftoa(o.FontSize, 2), ftoa(charWidth, 2), jsString(o.NameType),
		jsString(o.CountName), o.Inverted)
	d.str(flameJS, "]]></script>\n",
		`<rect width="100%" height="100%" fill="url(#background)"/>`+"\n")
	mid, big := itoa(o.Width/2), ftoa(o.FontSize+5, 2)
	line := int(o.FontSize)
	right, bottom := itoa(o.Width-svgMargin), itoa(d.height-line)
	d.str(`<text x="`, mid, `" y="`, itoa(2*line), `" style="font-size:`, big,
		`px" text-anchor="middle">`, escape.Markup(o.Title), "</text>\n")
	if o.Subtitle != "" {
		d.str(`<text class="sub" x="`, mid, `" y="`, itoa(4*line), `" text-anchor="middle">`,
			escape.Markup(o.Subtitle), "</text>\n")
	}
	if d.total == 0 {
		d.str(`<text x="`, mid, `" y="`, itoa(d.height/2), `" text-anchor="middle">no `,
			escape.Markup(o.CountName), "</text>\n")
	}
	d.str(`<text id="details" x="10" y="`, bottom, `"> </text>`+"\n",
		`<text id="reset" class="button" x="10" y="`, itoa(2*line),
		`" visibility="hidden">Reset Zoom</text>`+"\n", `<text id="search" class="button" x="`,
		itoa(o.Width-svgMargin-3*line), `" y="`, itoa(2*line), `" text-anchor="end">Search</text>`+"\n",
		`<text id="case" class="button" x="`, right, `" y="`, itoa(2*line),
		`" text-anchor="end">ic</text>`+"\n", `<text id="matched" x="`, right, `" y="`, bottom,
		`" text-anchor="end"> </text>`+"\n",
		`<g id="frames">`+"\n")
}

const flameCSS = `.sub{fill:#666}
#frames>g{cursor:pointer}
#frames text{pointer-events:none}
#frames>g:hover rect,#frames>g.at rect{stroke:#000;stroke-width:.5}
#frames>g.at rect{stroke-width:1.5}
#frames>g.parent{opacity:.5}
#frames>g.hide{display:none}
.button{cursor:pointer;opacity:.4}
.button:hover,.button.on{opacity:1}
`

// box draws one frame. data-x and data-w are its place in counts, for the script.
func (d *svgDrawing) box(b *svgBox) {
	if d.total == 0 {
		return
	}
	n := b.n
	x1 := svgMargin + float64(b.start)*d.perUnit
	x2 := svgMargin + float64(b.start+n.count)*d.perUnit
	y := d.y(b.depth)
	name := visibleName(n.name)
	color := ""
	switch {
	case d.diff:
		change := n.self - n.selfBase
		if d.o.Negate {
			change = -change
		}
		color = diffColor(change, d.largest)
	case b.depth == 0:
		color = frameColor(d.o.Colors, "", d.o.Hash)
	default:
		color = frameColor(d.o.Colors, n.name, d.o.Hash)
	}
	d.str(`<g data-x="`, strconv.FormatInt(b.start, 10), `" data-w="`, strconv.FormatInt(n.count, 10),
		`"><title>`,
		escape.Markup(name+" ("+d.counts(n)+")"), "</title>",
		`<rect x="`, ftoa(x1, 1), `" y="`, itoa(y), `" width="`, ftoa(x2-x1, 1), `" height="`,
		itoa(d.o.FrameHeight-1), `" fill="`, color, `" rx="2" ry="2"/>`)
	if label := d.label(name, x2-x1); label != "" {
		d.str(`<text x="`, ftoa(x1+3, 1), `" y="`,
			ftoa(float64(y)+float64(d.o.FrameHeight)/2+d.o.FontSize*0.3, 1), `">`, escape.Markup(label),
			"</text>")
	} else {
		d.str("<text/>") // the script fills it on zoom
	}
	d.str("</g>\n")
}

// counts is "1,234 samples, 5.67%", and the change of a differential picture.
func (d *svgDrawing) counts(n *node) string {
	s := groupDigits(n.count) + " " + d.o.CountName + ", " +
		ftoa(100*float64(n.count)/float64(d.total), 2) + "%"
	if d.diff {
		change := n.self - n.selfBase
		if d.o.Negate {
			change = -change
		}
		s += fmt.Sprintf("; %+.2f%%", 100*float64(change)/float64(d.total))
	}
	return s
}

// label is as much of the name as fits: its end, which tells functions of one package apart.
func (d *svgDrawing) label(name string, width float64) string {
	fit := int((width - 6) / (d.o.FontSize * charWidth))
	n := utf8.RuneCountInString(name)
	switch {
	case fit < 3:
		return ""
	case n <= fit:
		return name
	}
	return ".." + string([]rune(name)[n-(fit-2):])
}

// visibleName leaves out the suffix that only chooses the colour.
func visibleName(name string) string {
	for _, s := range [...]string{suffixKernel, suffixInlined, suffixJIT, suffixWaker} {
		if cut, ok := strings.CutSuffix(name, s); ok && cut != "" {
			return cut
		}
	}
	return name
}

// jsString quotes for a script inside CDATA.
func jsString(s string) string {
	return strings.ReplaceAll(strconv.QuoteToASCII(strings.Map(jsRune, s)), "]]>", `]]\x3e`)
}

// jsRune keeps to what Go and JavaScript quote alike.
func jsRune(r rune) rune {
	if r > 0xffff || r < ' ' {
		return utf8.RuneError
	}
	return r
}

// cssString quotes a font name; what could leave the string is left out.
func cssString(s string) string {
	return `"` + strings.Map(func(r rune) rune {
		if strings.ContainsRune(`"\<>&{};`, r) || r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s) + `"`
}

func itoa(n int) string { return strconv.Itoa(n) }

// ftoa prints with at most prec digits, none of them a trailing zero.
func ftoa(v float64, prec int) string {
	s := strconv.FormatFloat(v, 'f', prec, 64)
	if prec > 0 {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// groupDigits prints 1234567 as 1,234,567.
func groupDigits(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
