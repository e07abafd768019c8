package profile

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/golden"
)

func drawSVG(t testing.TB, f *Folded, o *SVGOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteSVG(&b, f, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// svgFrame is one frame as an XML reader sees it.
type svgFrame struct {
	X     int64  `xml:"data-x,attr"`
	W     int64  `xml:"data-w,attr"`
	Title string `xml:"title"`
	Rect  struct {
		X      float64 `xml:"x,attr"`
		Y      float64 `xml:"y,attr"`
		Width  float64 `xml:"width,attr"`
		Height float64 `xml:"height,attr"`
		Fill   string  `xml:"fill,attr"`
	} `xml:"rect"`
	Text string `xml:"text"`
}

func parseSVG(t testing.TB, b []byte) (width, height float64, frames []svgFrame) {
	t.Helper()
	var doc struct {
		XMLName xml.Name `xml:"http://www.w3.org/2000/svg svg"`
		Width   float64  `xml:"width,attr"`
		Height  float64  `xml:"height,attr"`
		G       []struct {
			G []svgFrame `xml:"g"`
		} `xml:"g"`
	}
	if err := xml.Unmarshal(b, &doc); err != nil {
		t.Fatalf("not well-formed: %v", err)
	}
	return doc.Width, doc.Height, doc.G[0].G
}

func TestWriteSVGGolden(t *testing.T) {
	mixed := readFolded(t, "mixed.folded")
	after := mixed.Filter(func(s FoldedStack) bool { return s.Frames[0] != "日本" })
	after.Add([]string{"redis", "main", "memcpy"}, 30)
	for _, c := range []struct {
		name string
		f    *Folded
		o    *SVGOptions
	}{
		{"python3.svg", readFolded(t, "python3.folded"), nil},
		{"java.svg", mixed, &SVGOptions{Colors: "java", Title: `<A & "B">`, Subtitle: "kernel + user", CountName: "µs", Notes: "--"}},
		{"icicle.svg", mixed, &SVGOptions{Inverted: true, Colors: "io", Width: 800, FrameHeight: 20, Hash: true}},
		{"reverse.svg", mixed, &SVGOptions{Reverse: true, Inverted: true, Colors: "aqua", Background: "#ffffff"}},
		{"diff.svg", Diff(mixed, after, false), nil},
		{"empty.svg", &Folded{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := drawSVG(t, c.f, c.o)
			golden.Compare(t, "testdata/svg/"+c.name, got)
			if !bytes.Equal(got, drawSVG(t, c.f, c.o)) {
				t.Error("not deterministic")
			}
		})
	}
}

// Every stack's frames stand above each other, children lie within their
// callers and do not overlap, and widths add up.
func TestWriteSVGGeometry(t *testing.T) {
	for _, inverted := range []bool{false, true} {
		f := readFolded(t, "mixed.folded")
		width, height, frames := parseSVG(t, drawSVG(t, f, &SVGOptions{MinWidth: -1, Inverted: inverted}))
		root := newTree(f)
		count := 0
		for todo := []*node{root}; len(todo) > 0; count++ {
			n := todo[len(todo)-1]
			todo = append(todo[:len(todo)-1], n.children...)
		}
		if len(frames) != count {
			t.Fatalf("%d frames drawn of %d", len(frames), count)
		}
		if frames[0].W != f.Total() || frames[0].X != 0 {
			t.Errorf("root is %d…%d, total %d", frames[0].X, frames[0].W, f.Total())
		}
		for i, a := range frames {
			scale := (width - 20) / float64(f.Total())
			if math.Abs(a.Rect.X-10-float64(a.X)*scale) > 0.1 || math.Abs(a.Rect.Width-float64(a.W)*scale) > 0.1 {
				t.Errorf("%s: box %v does not match counts %d+%d", a.Title, a.Rect, a.X, a.W)
			}
			if a.Rect.Y < 0 || a.Rect.Y+a.Rect.Height > height {
				t.Errorf("%s: outside of the picture", a.Title)
			}
			below := i == 0
			for j, b := range frames {
				if j != i && a.Rect.Y == b.Rect.Y && a.X < b.X+b.W && b.X < a.X+a.W {
					t.Errorf("%s and %s overlap", a.Title, b.Title)
				}
				step := b.Rect.Y - a.Rect.Y
				if inverted {
					step = -step
				}
				below = below || step == 16 && b.X <= a.X && a.X+a.W <= b.X+b.W
			}
			if !below {
				t.Errorf("%s: no caller below it", a.Title)
			}
		}
	}
}

func TestWriteSVGTitles(t *testing.T) {
	f := readFolded(t, "mixed.folded")
	_, _, frames := parseSVG(t, drawSVG(t, f, nil))
	want := map[string]bool{
		"all (133 samples, 100%)":                              false,
		`a & b "quoted" 'single' <tag> ]]> (9 samples, 6.77%)`: false,
		"vfs_write (25 samples, 18.8%)":                        false,
	}
	for _, fr := range frames {
		if _, ok := want[fr.Title]; ok {
			want[fr.Title] = true
		}
	}
	for title, seen := range want {
		if !seen {
			t.Errorf("no frame titled %s", title)
		}
	}
}

func TestWriteSVGMinWidth(t *testing.T) {
	var f Folded
	f.Add([]string{"big"}, 1_000_000)
	f.Add([]string{"small"}, 1)
	for min, want := range map[float64]int{0: 2, -1: 3, 0.001: 3, 2000: 1} {
		if _, _, frames := parseSVG(t, drawSVG(t, &f, &SVGOptions{MinWidth: min})); len(frames) != want {
			t.Errorf("minimum width %v: %d frames, want %d", min, len(frames), want)
		}
	}
}

func TestWriteSVGDifferential(t *testing.T) {
	d := Diff(mustFolded(t, "a;up 1\na;down 9\na;same 5\n"), mustFolded(t, "a;up 9\na;down 1\na;same 5\n"), false)
	fills := func(o *SVGOptions) map[string]string {
		m := make(map[string]string)
		_, _, frames := parseSVG(t, drawSVG(t, d, o))
		for _, fr := range frames {
			name, _, _ := strings.Cut(fr.Title, " ")
			m[name] = fr.Rect.Fill
		}
		return m
	}
	m, neg := fills(nil), fills(&SVGOptions{Negate: true})
	if m["up"] != "rgb(255,0,0)" || m["down"] != "rgb(0,0,255)" || m["same"] != "rgb(250,250,250)" {
		t.Errorf("colours %v", m)
	}
	if neg["up"] != m["down"] || neg["down"] != m["up"] {
		t.Errorf("negated colours %v", neg)
	}
}

func TestWriteSVGOptionErrors(t *testing.T) {
	f := mustFolded(t, "a 1\n")
	for _, o := range []SVGOptions{
		{Colors: "pink"},
		{Background: "pink"},
		{Background: "#12"},
		{Width: 10},
		{FrameHeight: 1},
		{FontSize: math.NaN()},
		{MinWidth: math.NaN()},
		{FontSize: -3},
	} {
		if err := WriteSVG(io.Discard, f, &o); err == nil || !strings.HasPrefix(err.Error(), "flame graph: ") {
			t.Errorf("%+v: error %v", o, err)
		}
	}
	if err := WriteSVG(brokenWriter{}, f, nil); !errors.Is(err, errBroken) {
		t.Errorf("a write error was lost: %v", err)
	}
}

var errBroken = errors.New("broken")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

// A stack of very many frames must not exhaust the goroutine's stack.
func TestWriteSVGDeep(t *testing.T) {
	var f Folded
	frames := make([]string, 300_000)
	for i := range frames {
		frames[i] = "f" + strconv.Itoa(i%3)
	}
	f.Add(frames, 1)
	if err := WriteSVG(io.Discard, &f, nil); err != nil {
		t.Fatal(err)
	}
}

func FuzzWriteSVG(f *testing.F) {
	f.Add("a;b 1\nc 2\n", "title", "hot")
	f.Add("<;& 1\n\x00\uffff 2\n", "]]>\x01<", "java")
	f.Add("-;_[k] 1\n", "'\"", "chain")
	f.Fuzz(func(t *testing.T, in, title, colors string) {
		p, err := ParseFolded(strings.NewReader(in))
		if err != nil {
			return
		}
		var b bytes.Buffer
		o := &SVGOptions{Title: title, Subtitle: title, Notes: title, CountName: title, NameType: title, FontType: title, Colors: colors}
		if err := WriteSVG(&b, p, o); err != nil {
			if paletteError(colors) == nil {
				t.Fatal(err)
			}
			return
		}
		_, _, frames := parseSVG(t, b.Bytes())
		if p.Total() > 0 && frames[0].W != p.Total() {
			t.Fatalf("root is %d wide, total %d", frames[0].W, p.Total())
		}
	})
}

// A flame chart keeps the order of time: what stacks in a row have in common is
// one box, and what comes again later is another.
func TestWriteFlameChart(t *testing.T) {
	frame := func(name string) *NamedFrame {
		return &NamedFrame{Functions: []Function{{Name: name}}}
	}
	mainFrame, read, write := frame("main"), frame("read"), frame("write")
	sample := func(at time.Duration, n int64, frames ...*NamedFrame) Sample {
		return Sample{Comm: "app", Time: at, Values: []int64{n}, Frames: frames}
	}
	p := &Profile{Samples: []Sample{
		sample(30, 4, read, mainFrame), sample(10, 1, read, mainFrame), sample(40, 0, write, mainFrame),
		sample(20, 2, write, mainFrame), sample(15, 1, read, mainFrame), sample(50, 3, mainFrame), sample(55, 5, read, mainFrame),
		{Comm: "app", Time: 60}, // without a value
	}}
	var b bytes.Buffer
	if err := WriteFlameChart(&b, p.Timeline(nil), nil); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/svg/chart.svg", b.Bytes())
	_, _, frames := parseSVG(t, b.Bytes())
	var got []string
	for _, f := range frames {
		name, _, _ := strings.Cut(f.Title, " ")
		got = append(got, fmt.Sprintf("%s %d+%d", name, f.X, f.W))
	}
	want := []string{"all 0+16", "app 0+16", "main 0+16", "read 0+2", "write 2+2", "read 4+4", "read 11+5"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, c := range map[string]struct {
		o *SVGOptions
		s FoldedStack
	}{
		"reverse":      {&SVGOptions{Reverse: true}, FoldedStack{}},
		"differential": {nil, FoldedStack{Frames: []string{"a"}, Count: 1, Base: 1}},
		"width":        {&SVGOptions{Width: 1}, FoldedStack{}},
	} {
		if err := WriteFlameChart(io.Discard, slices.Values([]FoldedStack{c.s}), c.o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	b.Reset()
	if err := WriteFlameChart(&b, slices.Values([]FoldedStack(nil)), nil); err != nil || !strings.Contains(b.String(), "no samples") {
		t.Errorf("nothing: %v\n%s", err, b.String())
	}
}
